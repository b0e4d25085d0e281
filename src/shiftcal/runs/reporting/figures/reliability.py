"""Reliability diagram: how often a model is right, against how often it says so."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from shiftcal.metrics import expected_calibration_error, reliability_curve
from shiftcal.runs.predictions import Predictions
from shiftcal.runs.reporting.contents import Domain
from shiftcal.runs.reporting.figures.drawing import DOMAIN_COLOURS, FAINT, INK, new_figure, plain


class ReliabilityInfo(NamedTuple):
    """The bins that hold at least one input, in order of confidence."""

    domain: Domain
    left: NDArray[np.float64]
    width: NDArray[np.float64]
    confidence: NDArray[np.float64]
    accuracy: NDArray[np.float64]
    num_inputs: NDArray[np.int64]
    calibration_error: float


def reliability_info(predictions: Predictions, domain: Domain) -> ReliabilityInfo | None:
    """Accuracy and mean confidence in equal-width bins of confidence; None without labels."""
    if predictions.labels is None:
        return None
    curve = reliability_curve(predictions.probabilities, predictions.labels)
    filled = curve.count > 0
    return ReliabilityInfo(
        domain=domain,
        left=curve.bin_edges[:-1][filled],
        width=np.diff(curve.bin_edges)[filled],
        confidence=curve.confidence[filled],
        accuracy=curve.accuracy[filled],
        num_inputs=curve.count[filled],
        calibration_error=expected_calibration_error(predictions.probabilities, predictions.labels),
    )


def draw_reliability(info: ReliabilityInfo) -> Figure:
    """Bars of accuracy with the gap to the mean confidence hatched, above the number of inputs per bin."""
    figure = new_figure(height=4.4)
    upper, lower = figure.subplots(2, sharex=True, height_ratios=(4, 1))
    _draw_bars(upper, info)
    _draw_counts(lower, info)
    figure.legend(loc="outside upper center", ncols=2)
    return figure


def _draw_bars(axes: Axes, info: ReliabilityInfo) -> None:
    plain(axes)
    colour = DOMAIN_COLOURS[info.domain]
    axes.bar(
        info.left,
        info.accuracy,
        info.width,
        align="edge",
        color=colour,
        alpha=0.65,
        edgecolor="white",
        label="is right",
    )
    axes.bar(
        info.left,
        info.confidence - info.accuracy,
        info.width,
        bottom=info.accuracy,
        align="edge",
        facecolor="none",
        edgecolor=INK,
        linewidth=0.7,
        hatch="////",
        label="gap to what it says",
    )
    axes.plot([0, 1], [0, 1], color=FAINT, linestyle="--", linewidth=1)
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1)
    axes.set_ylabel("accuracy")


def _draw_counts(axes: Axes, info: ReliabilityInfo) -> None:
    plain(axes)
    axes.bar(
        info.left,
        info.num_inputs,
        info.width,
        align="edge",
        color=DOMAIN_COLOURS[info.domain],
        alpha=0.65,
        edgecolor="white",
    )
    axes.set_ylabel("inputs")
    axes.set_xlabel("confidence")
    axes.locator_params(axis="y", nbins=3, integer=True)
