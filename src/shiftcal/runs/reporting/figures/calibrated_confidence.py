"""Histogram of confidence on the target, as the model gives it and calibrated."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from shiftcal.runs.reporting.figures.confidence import shares
from shiftcal.runs.reporting.figures.drawing import FAINT, INK, RUN_COLOURS, new_axes, new_figure, percentages


class CalibratedConfidenceInfo(NamedTuple):
    """Share of inputs per bin of confidence, the means, and the accuracy that is expected."""

    edges: NDArray[np.float64]
    given_share: NDArray[np.float64]
    calibrated_share: NDArray[np.float64]
    given_mean: float
    calibrated_mean: float
    accuracy: float


def calibrated_confidence_info(
    given: NDArray[np.float64], calibrated: NDArray[np.float64], accuracy: float, num_bins: int = 20
) -> CalibratedConfidenceInfo:
    """Of probabilities (N, C) before and after."""
    edges = np.linspace(0.0, 1.0, num_bins + 1)
    before, after = given.max(axis=1), calibrated.max(axis=1)
    return CalibratedConfidenceInfo(
        edges, shares(before, edges), shares(after, edges), float(before.mean()), float(after.mean()), accuracy
    )


def draw_calibrated_confidence(info: CalibratedConfidenceInfo) -> Figure:
    """Both histograms over each other, with a line at the accuracy that is expected."""
    figure = new_figure()
    axes = new_axes(figure, "confidence on the target", "share of inputs")
    for words, share, mean, colour in (
        ("as given", info.given_share, info.given_mean, FAINT),
        ("calibrated", info.calibrated_share, info.calibrated_mean, RUN_COLOURS[1]),
    ):
        axes.stairs(share, info.edges, fill=True, color=colour, alpha=0.25)
        axes.stairs(share, info.edges, color=colour, linewidth=1.4, label=f"{words}, mean {mean:.2f}")
    axes.axvline(info.accuracy, color=INK, linestyle="--", linewidth=1, label="accuracy to expect")
    percentages(axes.yaxis)
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1.05 * max(info.given_share.max(), info.calibrated_share.max()))
    figure.legend(loc="outside upper center", ncols=2)
    return figure
