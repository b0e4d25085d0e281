"""Kernel mean matching (Huang et al., Correcting Sample Selection Bias by Unlabeled Data, NeurIPS 2006 (2007)).

Weights w of the source points, which stand for P_target / P_source = 1 / R, bring the mean of the source in the
kernel's feature space to that of the target:

    minimise  w^T K w / 2 - k^T w,  k_i = N mean_target K(x_i, .),  0 <= w_i <= max_weight,  |mean w - 1| <= slack

The quadratic program is solved by L-BFGS-B within the box. Where the mean is then out of its range, the bound of it
is met exactly, by an augmented Lagrangian. The method says nothing about new points: there, and on the source
itself, w is the kernel regression sum_i K(x, x_i) w_i / sum_i K(x, x_i) (Nadaraya-Watson) of the source weights,
and R = 1 / w. Far from all source points that is the weight of the nearest ones.

Good for: weights of a few thousand source points without a density or a model of the ratio. Too mild in high
dimension, and blind where no source points are: ask another estimator whether the domains overlap at all.
Costs: O(N^2) memory, and O(N^2) time for each of some hundreds of steps: at most `max_rows` rows of a domain are
used, at random by the seed. There is no cross-validation: the width is half of the median distance.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.optimize import minimize

from shiftcal.core.options import option
from shiftcal.metrics.checks import FloatArray
from shiftcal.target.density_ratios.base import DensityRatioEstimator, LogRatio
from shiftcal.target.density_ratios.kernels import (
    gaussian_kernel,
    log_kernel_sum,
    median_distance,
    squared_distances,
    subsample,
)

_MEAN_TOLERANCE = 1e-4
_STIFFNESS = 10.0
_MOST_ROUNDS = 50


@dataclass(frozen=True, kw_only=True)
class KernelMeanMatching(DensityRatioEstimator):
    """Source weights that match the target's mean in feature space; good for a few thousand source points."""

    width: float | None = option(
        None, "of the kernel, in deviations of a feature; None: half of the median distance", above=0
    )
    regression_width: float = option(0.5, "of the kernel regression, as a share of the kernel's width", above=0)
    max_weight: float = option(1000.0, "largest weight of a source point", above=1)
    slack: float | None = option(
        None, "largest |mean weight - 1|; None: max_weight / sqrt(N), at most 1 - 1 / sqrt(N)", above=0, below=1
    )
    max_rows: int = option(2000, "rows of a domain that are used, at random", at_least=10, at_most=10_000)

    def fit_log_ratio(self, source: FloatArray, target: FloatArray, generator: np.random.Generator) -> LogRatio:
        """Weights of the source points."""
        source, target = (subsample(rows, self.max_rows, generator) for rows in (source, target))
        width = self.width or median_distance(np.concatenate([source, target]), generator) / 2
        kernel = gaussian_kernel(squared_distances(source, source), width)
        pull = gaussian_kernel(squared_distances(source, target), width).mean(axis=1)
        root = np.sqrt(len(source))
        slack = min(self.max_weight / root, 1 - 1 / root) if self.slack is None else self.slack
        weights = matching_weights(kernel, pull, max_weight=self.max_weight, slack=slack)
        return partial(_log_ratio, source, self.regression_width * width, weights)


def matching_weights(kernel: FloatArray, pull: FloatArray, *, max_weight: float, slack: float) -> FloatArray:
    """The quadratic program's weights (N,) from the source kernel (N, N) and pull_i = mean_target K(x_i, .) (N,)."""
    weights = _minimize_in_box(kernel, pull, np.ones(len(kernel)), max_weight)
    # The problem is convex: a range that its free solution leaves is met at the nearer end.
    mean = float(np.clip(weights.mean(), 1 - slack, 1 + slack))
    multiplier = 0.0
    for _ in range(_MOST_ROUNDS):
        if abs(weights.mean() - mean) <= _MEAN_TOLERANCE:
            break
        multiplier += _STIFFNESS * (weights.mean() - mean)
        # The multiplier and the stiff term both act on the mean alone: a lower pull and a higher kernel everywhere.
        weights = _minimize_in_box(
            kernel, pull - multiplier + _STIFFNESS * mean, weights, max_weight, stiffness=_STIFFNESS
        )
    return weights


def _minimize_in_box(
    kernel: FloatArray, pull: FloatArray, start: FloatArray, max_weight: float, *, stiffness: float = 0.0
) -> FloatArray:
    """Minimise w^T K w / (2 N^2) + stiffness (mean w)^2 / 2 - mean(pull w) over 0 <= w <= max_weight."""
    num_points = len(kernel)

    def objective(weights: FloatArray) -> tuple[float, FloatArray]:
        product = kernel @ weights / num_points + stiffness * weights.mean()
        return float(weights @ (product / 2 - pull)) / num_points, (product - pull) / num_points

    result = minimize(
        objective,
        start,
        jac=True,
        method="L-BFGS-B",
        bounds=[(0.0, max_weight)] * num_points,
        options={"maxiter": 1000, "ftol": 1e-10, "gtol": 1e-9},
    )
    return np.asarray(result.x, dtype=np.float64)


def _log_ratio(source: FloatArray, width: float, weights: FloatArray, rows: FloatArray) -> FloatArray:
    squares = squared_distances(rows, source)
    total = log_kernel_sum(squares, width, np.ones(len(source)))
    return total - log_kernel_sum(squares, width, weights)
