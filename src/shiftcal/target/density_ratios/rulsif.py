"""RuLSIF (Yamada et al., Relative Density-Ratio Estimation for Robust Distribution Comparison, Neural Computation 25,
2013): least squares for the alpha-relative ratio r = P_source / (alpha P_source + (1 - alpha) P_target).

r(x) = sum_l a_l K(x, c_l) with Gaussian kernels around source points c_l, and

    a = (H + penalty I)^-1 h,  H = alpha mean_source k k^T + (1 - alpha) mean_target k k^T,  h = mean_source k

Width and penalty have the smallest held-out loss  alpha mean_source r^2 / 2 + (1 - alpha) mean_target r^2 / 2 -
mean_source r  (cross-validation). r is bounded by 1 / alpha, which makes it far easier to learn than R. Afterwards
R = (1 - alpha) r / (1 - alpha r); where r leaves (0, 1 / alpha), R is at its bound, so take a bound that a
weight may have.

Good for: up to some ten features, domains that overlap little, where plain ratios are unbounded; fast.
Costs: O((N + M) num_kernels (num_kernels + F)) for each width: half a second for 2,000 x 256.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from shiftcal.core.options import option
from shiftcal.metrics.checks import FloatArray
from shiftcal.target.density_ratios.base import DensityRatioEstimator, LogRatio
from shiftcal.target.density_ratios.kernels import gaussian_kernel, squared_distances
from shiftcal.target.density_ratios.least_squares import LeastSquaresOptions, fit_least_squares

_TINY = 1e-300


@dataclass(frozen=True, kw_only=True)
class RuLSIF(LeastSquaresOptions, DensityRatioEstimator):
    """Least squares for a bounded relative ratio; good for domains that overlap little."""

    alpha: float = option(0.5, "share of the source in the denominator", above=0, below=1)

    def fit_log_ratio(self, source: FloatArray, target: FloatArray, generator: np.random.Generator) -> LogRatio:
        """Width and penalty, then coefficients."""
        fit = fit_least_squares(source, target, self, self.alpha, generator)
        return partial(_log_ratio, fit.centres, fit.width, fit.weights, self.alpha)


def _log_ratio(centres: FloatArray, width: float, weights: FloatArray, alpha: float, rows: FloatArray) -> FloatArray:
    relative = gaussian_kernel(squared_distances(rows, centres), width) @ weights
    numerator, denominator = (1 - alpha) * relative, 1 - alpha * relative
    return np.log(np.maximum(numerator, _TINY)) - np.log(np.maximum(denominator, _TINY))
