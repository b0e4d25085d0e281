"""KLIEP (Sugiyama et al., Direct importance estimation for covariate shift adaptation, AISM 60, 2008).

R(x) = sum_l a_l K(x, c_l) with Gaussian kernels around source points c_l. The coefficients maximise
mean_source log R subject to mean_target R = 1 and a >= 0: R P_target is then as near to P_source as can be in the
Kullback-Leibler sense. The width has the largest held-out mean_source log R (likelihood cross-validation).

With b_l = mean_target K(., c_l) and shares q_l = a_l b_l this is the fit of mixture shares, q >= 0, sum q = 1, of
the components K(., c_l) / b_l. The problem is concave, and the EM step q_l <- q_l g_l, with
g_l = mean_source K(., c_l) / (b_l R), climbs without a step size; max g - 1 bounds how far the optimum is. Stopping
at 0.01 is faster than at 0.001, and no less exact on held-out points.

The ratio of a source point that is far from the chosen c_l goes to 0 at the rate of the kernel, and its weight 1 / R
may outweigh all others. `constant=True` adds a_0 to the sum, which is not in the paper and bounds such weights, at
the price of noisier ratios elsewhere.

Good for: one to three features, smooth ratios; never negative.
Costs: O((N + M) num_kernels F) for kernels and some hundred steps of O(N num_kernels) for each width and fold: half
a second for 2,000 x 256.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from shiftcal.core.errors import InvalidInputError
from shiftcal.core.options import option
from shiftcal.metrics.checks import FloatArray, IntArray
from shiftcal.target.density_ratios.base import DensityRatioEstimator, LogRatio
from shiftcal.target.density_ratios.folds import fold_numbers
from shiftcal.target.density_ratios.kernels import (
    WIDTH_FACTORS,
    gaussian_kernel,
    log_kernel_sum,
    median_distance,
    squared_distances,
    subsample,
)

_TINY = 1e-300


@dataclass(frozen=True, kw_only=True)
class KLIEP(DensityRatioEstimator):
    """Ratio as a mixture of kernels with the largest source likelihood; good for a few features."""

    width: float | None = option(None, "of the kernels, in deviations of a feature; None: cross-validated", above=0)
    num_kernels: int = option(100, "source points that carry a kernel, at random", at_least=1, at_most=10_000)
    constant: bool = option(False, "whether a constant is added to the kernels")
    num_folds: int = option(5, "folds of the cross-validation", at_least=2, at_most=10)

    def fit_log_ratio(self, source: FloatArray, target: FloatArray, generator: np.random.Generator) -> LogRatio:
        """Width, then coefficients."""
        centres = subsample(source, self.num_kernels, generator)
        # A kernel at no distance from any point is the constant.
        squares = [squared_distances(rows, centres) for rows in (source, target)]
        source_squares, target_squares = (_with_constant(values) if self.constant else values for values in squares)
        width = self.width
        if width is None:
            median = median_distance(np.concatenate([source, target]), generator)
            fold = fold_numbers(len(source), self.num_folds, generator)
            widths = [median * factor for factor in WIDTH_FACTORS]
            scores = [held_out_likelihood(source_squares, target_squares, candidate, fold) for candidate in widths]
            width = widths[int(np.argmax(scores))]
        weights = kliep_weights(gaussian_kernel(source_squares, width), gaussian_kernel(target_squares, width))
        return partial(_log_ratio, centres, self.constant, width, weights)


def kliep_weights(
    source_kernel: FloatArray, target_kernel: FloatArray, *, tolerance: float = 1e-2, max_steps: int = 1000
) -> FloatArray:
    """Coefficients a (L,) from kernels (N, L) and (M, L), whose objective is within `tolerance` of the optimum.

    After `max_steps` the last is taken: every step is an improvement, so this is a milder fit, not a wrong one.

    Raises:
        InvalidInputError: no kernel reaches any target point.
    """
    mean_target = target_kernel.mean(axis=0)
    # A kernel that no target point touches could have any coefficient: it is left out.
    usable = mean_target > _TINY
    if not usable.any():
        raise InvalidInputError(
            "the width of the kernels must be large enough for one of them to reach a target point. "
            "Give a larger width, or None to have it chosen."
        )
    scaled = source_kernel[:, usable] / mean_target[usable]
    share = np.full(scaled.shape[1], 1 / scaled.shape[1])
    for _ in range(max_steps):
        growth = (1 / np.maximum(scaled @ share, _TINY)) @ scaled / len(scaled)
        if growth.max() <= 1 + tolerance:
            break
        share = share * growth
        share /= share.sum()
    weights = np.zeros(len(usable))
    weights[usable] = share / mean_target[usable]
    return weights


def held_out_likelihood(
    source_squares: FloatArray, target_squares: FloatArray, width: float, fold: IntArray
) -> float:
    """Mean of log R over source points, each from a fit without its fold."""
    source_kernel, target_kernel = gaussian_kernel(source_squares, width), gaussian_kernel(target_squares, width)
    log_ratio = np.empty(len(fold))
    for number in range(fold.max() + 1):
        held = fold == number
        weights = kliep_weights(source_kernel[~held], target_kernel)
        log_ratio[held] = np.log(np.maximum(source_kernel[held] @ weights, _TINY))
    return float(log_ratio.mean())


def _with_constant(squares: FloatArray) -> FloatArray:
    return np.concatenate([squares, np.zeros((len(squares), 1))], axis=1)


def _log_ratio(
    centres: FloatArray, constant: bool, width: float, weights: FloatArray, rows: FloatArray
) -> FloatArray:
    squares = squared_distances(rows, centres)
    return log_kernel_sum(_with_constant(squares) if constant else squares, width, weights)
