"""Two Gaussians: log R(x) = log N(x; m_s, S_s) - log N(x; m_t, S_t).

Means and covariances of each domain, the covariances shrunk towards a multiple of the identity by as much as Ledoit
and Wolf's formula says (J. of Multivariate Analysis 88, 2004). It is the two-stage ratio of RBA (Liu and Ziebart,
Robust Classification Under Sample Selection Bias, NeurIPS 2014), whose densities are given beforehand.

Good for: few features, or features that are roughly Gaussian; sees changes of variance, not of mean alone. In high
dimension small errors of the densities add up, and ratios are far too extreme: project (`num_components`) or bound.
Costs: O((N + M) F^2 + F^3) once; a tenth of a second for 2,000 x 256.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.linalg import solve_triangular
from sklearn.covariance import ledoit_wolf

from shiftcal.density_ratios.base import DensityRatioEstimator, LogRatio
from shiftcal.metrics.checks import FloatArray

# Keeps the covariance of constant features invertible; features are in units of their deviation.
_RIDGE = 1e-6


@dataclass(frozen=True, eq=False)
class GaussianDensity:
    """N(x; mean, L L^T)."""

    mean: FloatArray
    triangle: FloatArray

    @classmethod
    def of(cls, rows: FloatArray) -> GaussianDensity:
        """The density with the mean and the shrunk covariance of rows (N, F)."""
        covariance, _ = ledoit_wolf(rows)
        return cls(rows.mean(axis=0), np.linalg.cholesky(covariance + _RIDGE * np.eye(rows.shape[1])))

    def log_density(self, rows: FloatArray) -> FloatArray:
        """Log density of rows (K, F): (K,)."""
        white = self.whitened(rows)
        constant = np.log(np.diag(self.triangle)).sum() + len(self.mean) * math.log(2 * math.pi) / 2
        values: FloatArray = -0.5 * (white**2).sum(axis=1) - constant
        return values

    def whitened(self, rows: FloatArray) -> FloatArray:
        """Rows in coordinates in which the density is the standard normal one."""
        return np.asarray(solve_triangular(self.triangle, (rows - self.mean).T, lower=True).T)


@dataclass(frozen=True, kw_only=True)
class Gaussian(DensityRatioEstimator):
    """Ratio of two Gaussians with shrunk covariances; good for few features, and for RBA."""

    def fit_log_ratio(self, source: FloatArray, target: FloatArray, generator: np.random.Generator) -> LogRatio:  # noqa: ARG002 - nothing is random here
        """Means and covariances of both domains."""
        return partial(_log_ratio, GaussianDensity.of(source), GaussianDensity.of(target))


def _log_ratio(source: GaussianDensity, target: GaussianDensity, rows: FloatArray) -> FloatArray:
    return source.log_density(rows) - target.log_density(rows)
