"""uLSIF (Kanamori, Hido and Sugiyama, A Least-squares Approach to Direct Importance Estimation, JMLR 10, 2009).

R(x) = sum_l a_l K(x, c_l) with Gaussian kernels around source points c_l and  a = max(0, (H + penalty I)^-1 h),
H = mean_target k k^T, h = mean_source k: the least-squares fit of R under P_target. Width and penalty have the
smallest held-out loss  mean_target R^2 / 2 - mean_source R  (cross-validation). An addition to the paper: R is scaled
to mean_target R = 1, which holds for every density ratio and is lost with the negative coefficients.

Good for: one to three features and domains that overlap well; fast, a closed form. The squared loss cares for large
ratios, so small ones are less exact, and far from all source points the ratio goes to 0.
Costs: O((N + M) num_kernels (num_kernels + F)) for each width: half a second for 2,000 x 256.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.special import logsumexp

from shiftcal.metrics.checks import FloatArray
from shiftcal.target.density_ratios.base import DensityRatioEstimator, LogRatio
from shiftcal.target.density_ratios.kernels import log_kernel_sum, squared_distances
from shiftcal.target.density_ratios.least_squares import LeastSquaresOptions, fit_least_squares


@dataclass(frozen=True, kw_only=True)
class ULSIF(LeastSquaresOptions, DensityRatioEstimator):
    """Least squares for the ratio, in closed form; good for one to three features and domains that overlap well."""

    def fit_log_ratio(self, source: FloatArray, target: FloatArray, generator: np.random.Generator) -> LogRatio:
        """Width and penalty, then coefficients."""
        fit = fit_least_squares(source, target, self, 0.0, generator, non_negative=True)
        unscaled = partial(_log_kernels, fit.centres, fit.width, fit.weights)
        return partial(_log_ratio, unscaled, float(logsumexp(unscaled(target)) - math.log(len(target))))


def _log_ratio(unscaled: LogRatio, log_scale: float, rows: FloatArray) -> FloatArray:
    return unscaled(rows) - log_scale


def _log_kernels(centres: FloatArray, width: float, weights: FloatArray, rows: FloatArray) -> FloatArray:
    if not weights.any():
        # A width and a penalty that leave nothing of any kernel say nothing about the ratio.
        return np.zeros(len(rows))
    return log_kernel_sum(squared_distances(rows, centres), width, weights)
