"""What is drawn of the density ratio: its histogram, and accuracy by it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter
from numpy.typing import NDArray

from shiftcal.runs.predictions import Predictions
from shiftcal.runs.reporting.contents import Domain, RunContents
from shiftcal.runs.reporting.figures.calibration import HistogramInfo, draw_overlaid, shares
from shiftcal.runs.reporting.figures.drawing import DOMAIN_COLOURS, INK, list_below_each_other, new_axes, new_figure

# Ratios outside are counted in the outermost bins: zero has no place on a logarithmic axis.
LOWEST, HIGHEST = 1e-6, 1e6


def density_ratio_info(run: RunContents, num_bins: int = 30) -> HistogramInfo | None:
    """Shares of inputs in bins of equal width in log R, and the medians; None where no shift is modelled."""
    if not run.models_shift:
        return None
    source = np.clip(run.source.density_ratio, LOWEST, HIGHEST)
    target = np.clip(run.target.density_ratio, LOWEST, HIGHEST)
    # R = 1, "as likely in both domains", is always in view; the factor keeps a constant ratio drawable.
    low = min(source.min(), target.min(), 1.0) / 1.05
    high = max(source.max(), target.max(), 1.0) * 1.05
    edges = np.geomspace(low, high, num_bins + 1)
    return HistogramInfo(
        edges, shares(source, edges), shares(target, edges), float(np.median(source)), float(np.median(target))
    )


def draw_density_ratio(info: HistogramInfo) -> Figure:
    """Both histograms over each other on a logarithmic axis, with a line at each median."""
    figure = new_figure()
    axes = new_axes(figure, "density ratio, P(source) / P(target)", "share of inputs")
    draw_overlaid(axes, info, "{domain}, median {centre:.2f}")
    axes.axvline(1.0, color=INK, linewidth=0.8)
    logarithmic(axes, info.edges[0], info.edges[-1])
    figure.legend(loc="outside upper center", ncols=2)
    return figure


def logarithmic(axes: Axes, low: float, high: float) -> None:
    """Make the horizontal axis logarithmic from `low` to `high`, labelled with plain numbers."""
    axes.set_xscale("log")
    axes.set_xlim(low, high)
    steps = (1.0, 2.0, 5.0) if high / low < 1000 else (1.0,)
    axes.xaxis.set_major_locator(LogLocator(subs=steps))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())


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
