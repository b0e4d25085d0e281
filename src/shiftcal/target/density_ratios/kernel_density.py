"""Two kernel density estimates: log R(x) = log p_s(x) - log p_t(x), p(x) = mean_i N(x; x_i, h^2 S).

S is the domain's own shrunk covariance and h its bandwidth: c n^(-1/(d + 4)) with c = 1 by Scott's rule (Multivariate
Density Estimation, 1992), or with the c, the same for both domains, that tells them apart best: the smallest
leave-one-out domain loss -log R/(1 + R) on the source, -log 1/(1 + R) on the target. (The leave-one-out likelihood of
each density by itself chooses bandwidths whose ratio is wild in the tails.)

Good for: up to about five features, of any distribution. More features are projected on the leading principal
components (`num_components`), and what shifts outside of them is not seen.
Costs: O(n^2) for the bandwidth, on at most 1,000 rows of a domain, and O(n d) for each prediction, with at most
`max_rows` rows of a domain.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import log_expit
from sklearn.covariance import ledoit_wolf

from shiftcal.core.options import option
from shiftcal.metrics.checks import FloatArray
from shiftcal.target.density_ratios.base import DensityRatioEstimator, LogRatio
from shiftcal.target.density_ratios.kernels import log_kernel_sum, squared_distances, subsample

# Candidates for the bandwidth, as multiples of Scott's.
BANDWIDTH_FACTORS = (0.5, 0.7, 1.0, 1.4, 2.0, 2.8)
_MOST_ROWS_FOR_BANDWIDTH = 1000
# Keeps the covariance of constant features invertible; features are in units of their deviation.
_RIDGE = 1e-6


@dataclass(frozen=True, eq=False)
class KernelDensityEstimate:
    """The mean of Gaussians around points (n, d), which are kept in coordinates where S = L L^T is the identity."""

    points: FloatArray
    triangle: FloatArray

    @classmethod
    def of(cls, rows: FloatArray) -> KernelDensityEstimate:
        """The estimate from rows (n, d)."""
        covariance, _ = ledoit_wolf(rows)
        triangle = np.linalg.cholesky(covariance + _RIDGE * np.eye(rows.shape[1]))
        return cls(_whitened(rows, triangle), triangle)

    def squares(self, rows: FloatArray) -> FloatArray:
        """Squared distances (K, n) of rows (K, d) to the points, in the same coordinates."""
        return squared_distances(_whitened(rows, self.triangle), self.points)

    def log_density(self, squares: FloatArray, factor: float, *, left_out: int = 0) -> FloatArray:
        """Log density (K,) at squared distances (K, n), `left_out` of which are infinite in each row."""
        num_points, dimension = self.points.shape
        bandwidth = factor * num_points ** (-1 / (dimension + 4))
        volume = np.log(np.diag(self.triangle)).sum() + dimension * math.log(bandwidth)
        constant = volume + math.log(num_points - left_out) + dimension * math.log(2 * math.pi) / 2
        values: FloatArray = log_kernel_sum(squares, bandwidth, np.ones(num_points)) - constant
        return values


@dataclass(frozen=True, kw_only=True)
class KernelDensity(DensityRatioEstimator):
    """Ratio of two kernel density estimates; good for up to about five features of any distribution."""

    num_components: int | None = option(
        5, "project on so many principal components first; None: keep all features", at_least=1, at_most=10_000
    )
    bandwidth: Literal["cross-validated", "scott"] = option(
        "cross-validated", "by leave-one-out domain loss, or by Scott's rule"
    )
    max_rows: int = option(3000, "rows of a domain that are used, at random", at_least=10, at_most=10_000)

    def fit_log_ratio(self, source: FloatArray, target: FloatArray, generator: np.random.Generator) -> LogRatio:
        """Bandwidths of both domains."""
        factor = 1.0
        if self.bandwidth == "cross-validated":
            some = (subsample(rows, _MOST_ROWS_FOR_BANDWIDTH, generator) for rows in (source, target))
            factor = best_factor(*some)
        source, target = (subsample(rows, self.max_rows, generator) for rows in (source, target))
        return partial(_log_ratio, KernelDensityEstimate.of(source), KernelDensityEstimate.of(target), factor)


def best_factor(source: FloatArray, target: FloatArray) -> float:
    """The one of BANDWIDTH_FACTORS with the smallest leave-one-out domain loss on rows (N, d) and (M, d)."""
    losses = np.zeros(len(BANDWIDTH_FACTORS))
    # The loss of one domain is that of the other with the domains in exchange.
    for own_rows, other_rows in ((source, target), (target, source)):
        own, other = KernelDensityEstimate.of(own_rows), KernelDensityEstimate.of(other_rows)
        own_squares, other_squares = own.squares(own_rows), other.squares(own_rows)
        np.fill_diagonal(own_squares, np.inf)
        for number, factor in enumerate(BANDWIDTH_FACTORS):
            log_own = own.log_density(own_squares, factor, left_out=1)
            losses[number] -= log_expit(log_own - other.log_density(other_squares, factor)).mean()
    return BANDWIDTH_FACTORS[int(np.argmin(losses))]


def _whitened(rows: FloatArray, triangle: FloatArray) -> FloatArray:
    return np.asarray(solve_triangular(triangle, rows.T, lower=True).T)


def _log_ratio(
    source: KernelDensityEstimate, target: KernelDensityEstimate, factor: float, rows: FloatArray
) -> FloatArray:
    return source.log_density(source.squares(rows), factor) - target.log_density(target.squares(rows), factor)
