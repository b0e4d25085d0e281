"""Gaussian kernels and the choice of their widths."""

from __future__ import annotations

import numpy as np

from shiftcal.metrics.checks import FloatArray

# Candidates for a width, as multiples of the median distance.
WIDTH_FACTORS = (0.2, 0.3, 0.45, 0.65, 1.0, 1.4, 2.0, 3.0)
_MOST_ROWS_FOR_MEDIAN = 500


def squared_distances(rows: FloatArray, centres: FloatArray) -> FloatArray:
    """Squared Euclidean distances (K, L) of rows (K, F) to centres (L, F)."""
    squares: FloatArray = (rows**2).sum(axis=1)[:, None] + (centres**2).sum(axis=1) - 2 * rows @ centres.T
    return np.maximum(squares, 0, out=squares)


def gaussian_kernel(squares: FloatArray, width: float) -> FloatArray:
    """exp(-d^2 / (2 width^2)) of squared distances."""
    return np.exp(squares / (-2 * width**2))


def log_kernel_sum(squares: FloatArray, width: float, weights: FloatArray) -> FloatArray:
    """log sum_l weight_l exp(-d_kl^2 / (2 width^2)) of squared distances (K, L): (K,), finite however far away."""
    used = weights > 0
    kept = squares if used.all() else squares[:, used]
    # The kernel of the nearest point is taken out, so that the sum can't underflow.
    nearest = kept.min(axis=1)
    sums = gaussian_kernel(kept - nearest[:, None], width) @ weights[used]
    values: FloatArray = np.log(sums) - nearest / (2 * width**2)
    return values


def median_distance(rows: FloatArray, generator: np.random.Generator) -> float:
    """Median distance between different rows, of at most some hundreds; 1 if all are the same."""
    chosen = subsample(rows, _MOST_ROWS_FOR_MEDIAN, generator)
    squares = squared_distances(chosen, chosen)[np.triu_indices(len(chosen), 1)]
    return float(np.sqrt(np.median(squares))) or float(np.sqrt(squares.max())) or 1.0


def subsample(rows: FloatArray, size: int, generator: np.random.Generator) -> FloatArray:
    """At most `size` rows, at random without repetition, in their order."""
    if len(rows) <= size:
        return rows
    return rows[np.sort(generator.permutation(len(rows))[:size])]
