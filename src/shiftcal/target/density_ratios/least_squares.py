"""What uLSIF and RuLSIF share: the closed form of the coefficients, and the choice of width and penalty."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from shiftcal.core.options import option
from shiftcal.metrics.checks import FloatArray
from shiftcal.target.density_ratios.folds import fold_numbers
from shiftcal.target.density_ratios.kernels import (
    WIDTH_FACTORS,
    gaussian_kernel,
    median_distance,
    squared_distances,
    subsample,
)

PENALTIES = tuple(10.0**power for power in np.arange(-4, 1.5, 0.5))


@dataclass(frozen=True, kw_only=True)
class LeastSquaresOptions:
    """Options of uLSIF and RuLSIF."""

    width: float | None = option(None, "of the kernels, in deviations of a feature; None: cross-validated", above=0)
    penalty: float | None = option(None, "of the coefficients; None: cross-validated", above=0)
    num_kernels: int = option(100, "source points that carry a kernel, at random", at_least=1, at_most=10_000)
    num_folds: int = option(5, "folds of the cross-validation", at_least=2, at_most=10)


class LeastSquaresFit(NamedTuple):
    """r(x) = sum_l weight_l K(x, centre_l): centres (L, F) and weights (L,)."""

    centres: FloatArray
    width: float
    weights: FloatArray


def fit_least_squares(
    source: FloatArray,
    target: FloatArray,
    options: LeastSquaresOptions,
    alpha: float,
    generator: np.random.Generator,
    *,
    non_negative: bool = False,
) -> LeastSquaresFit:
    """The alpha-relative ratio of features (N, F) and (M, F)."""
    centres = subsample(source, options.num_kernels, generator)
    source_squares, target_squares = squared_distances(source, centres), squared_distances(target, centres)
    source_fold = fold_numbers(len(source), options.num_folds, generator)
    target_fold = fold_numbers(len(target), options.num_folds, generator)
    median = median_distance(np.concatenate([source, target]), generator)
    widths = [median * factor for factor in WIDTH_FACTORS] if options.width is None else [options.width]
    penalties = PENALTIES if options.penalty is None else (options.penalty,)

    losses = np.zeros((len(widths), len(penalties)))
    for number, width in enumerate(widths if losses.size > 1 else []):
        source_kernel, target_kernel = gaussian_kernel(source_squares, width), gaussian_kernel(target_squares, width)
        for fold in range(options.num_folds):
            held_source, held_target = source_fold == fold, target_fold == fold
            candidates = least_squares_weights(
                source_kernel[~held_source], target_kernel[~held_target], alpha, penalties, non_negative=non_negative
            )
            losses[number] += least_squares_loss(
                source_kernel[held_source], target_kernel[held_target], alpha, candidates
            )
    best_width, best_penalty = np.unravel_index(np.argmin(losses), losses.shape)
    width, penalty = widths[best_width], penalties[best_penalty]
    weights = least_squares_weights(
        gaussian_kernel(source_squares, width),
        gaussian_kernel(target_squares, width),
        alpha,
        [penalty],
        non_negative=non_negative,
    )
    return LeastSquaresFit(centres, width, weights[0])


def least_squares_weights(
    source_kernel: FloatArray,
    target_kernel: FloatArray,
    alpha: float,
    penalties: Sequence[float],
    *,
    non_negative: bool,
) -> FloatArray:
    """(H + penalty I)^-1 h for each penalty (P, L), by one eigendecomposition, from kernels (N, L) and (M, L)."""
    second = (1 - alpha) * (target_kernel.T @ target_kernel) / len(target_kernel)
    if alpha > 0:
        second += alpha * (source_kernel.T @ source_kernel) / len(source_kernel)
    values, vectors = np.linalg.eigh(second)
    projected = vectors.T @ source_kernel.mean(axis=0)
    weights: FloatArray = (projected / (np.maximum(values, 0) + np.array(penalties)[:, None])) @ vectors.T
    return np.maximum(weights, 0) if non_negative else weights


def least_squares_loss(
    source_kernel: FloatArray, target_kernel: FloatArray, alpha: float, weights: FloatArray
) -> FloatArray:
    """alpha mean_source r^2 / 2 + (1 - alpha) mean_target r^2 / 2 - mean_source r for each row of weights: (P,)."""
    # A ratio is not negative, so what is below zero is taken as zero here as in the end.
    source, target = (np.maximum(kernel @ weights.T, 0) for kernel in (source_kernel, target_kernel))
    loss: FloatArray = (
        alpha * (source**2).mean(axis=0) / 2 + (1 - alpha) * (target**2).mean(axis=0) / 2 - source.mean(axis=0)
    )
    return loss
