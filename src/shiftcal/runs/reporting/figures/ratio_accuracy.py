"""Accuracy against the density ratio: are inputs that look less like the source harder?"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from shiftcal.runs.predictions import Predictions
from shiftcal.runs.reporting.contents import Domain
from shiftcal.runs.reporting.figures.density_ratio import HIGHEST, LOWEST, logarithmic
from shiftcal.runs.reporting.figures.drawing import DOMAIN_COLOURS, list_below_each_other, new_axes, new_figure

SMALLEST_BIN = 10


class RatioAccuracyInfo(NamedTuple):
    """One entry per quantile bin, from the least to the most source-like."""

    domain: Domain
    ratio: NDArray[np.float64]
    """Median ratio in the bin."""
    accuracy: NDArray[np.float64]
    standard_error: NDArray[np.float64]
    """sqrt(a (1 - a) / n)"""
    confidence: NDArray[np.float64]
    num_inputs: NDArray[np.int64]


def ratio_accuracy_info(predictions: Predictions, domain: Domain, num_bins: int = 10) -> RatioAccuracyInfo | None:
    """Accuracy and mean confidence in quantile bins of the ratio; None without labels or with a constant ratio.

    Equal ratios always share a bin, and there are fewer bins where they would hold fewer than ten inputs each.
    """
    ratio = np.clip(predictions.density_ratio, LOWEST, HIGHEST)
    if predictions.labels is None or np.allclose(ratio, ratio[0]):
        return None
    num_bins = max(1, min(num_bins, len(ratio) // SMALLEST_BIN))
    bins = _quantile_bins(ratio, num_bins)
    right = predictions.predicted == predictions.labels
    members = [bins == index for index in np.unique(bins)]
    accuracy = np.array([right[rows].mean() for rows in members])
    count = np.array([rows.sum() for rows in members])
    return RatioAccuracyInfo(
        domain=domain,
        ratio=np.array([np.median(ratio[rows]) for rows in members]),
        accuracy=accuracy,
        standard_error=np.sqrt(accuracy * (1 - accuracy) / count),
        confidence=np.array([predictions.confidence[rows].mean() for rows in members]),
        num_inputs=count,
    )


def _quantile_bins(values: NDArray[np.float64], num_bins: int) -> NDArray[np.int64]:
    # By rank, where equal values have the rank in their middle: many ratios may lie exactly on a bound.
    _, position, count = np.unique(values, return_inverse=True, return_counts=True)
    middle_rank = np.cumsum(count) - (count + 1) / 2
    return np.floor(middle_rank * num_bins / len(values)).astype(np.int64)[position]


def draw_ratio_accuracy(infos: tuple[RatioAccuracyInfo, ...]) -> Figure:
    """Accuracy with its standard error as filled points, what the model says as hollow ones."""
    figure = new_figure(height=2.9)
    axes = new_axes(figure, "density ratio (median of the bin)", "accuracy")
    for info in infos:
        colour = DOMAIN_COLOURS[info.domain]
        axes.plot(
            info.ratio,
            info.confidence,
            color=colour,
            marker="o",
            markerfacecolor="white",
            linestyle=":",
            linewidth=1,
            label=f"{info.domain}: says (mean confidence)",
        )
        axes.errorbar(
            info.ratio,
            info.accuracy,
            info.standard_error,
            color=colour,
            marker="o",
            capsize=3,
            linewidth=1.4,
            label=f"{info.domain}: is right ({_written_counts(info.num_inputs)} inputs a bin)",
        )
    ratios = np.concatenate([info.ratio for info in infos])
    logarithmic(axes, ratios.min() / 1.2, ratios.max() * 1.2)
    axes.set_ylim(-0.03, 1.03)
    list_below_each_other(figure, 2 * len(infos))
    return figure


def _written_counts(count: NDArray[np.int64]) -> str:
    low, high = int(count.min()), int(count.max())
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"
