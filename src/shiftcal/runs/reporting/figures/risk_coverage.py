"""Risk-coverage curve: the error rate when only the most confident share of inputs is answered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from shiftcal.metrics import risk_coverage_curve
from shiftcal.runs.predictions import Predictions
from shiftcal.runs.reporting.contents import Domain
from shiftcal.runs.reporting.figures.drawing import (
    DOMAIN_COLOURS,
    list_below_each_other,
    new_axes,
    new_figure,
    percentages,
    run_styles,
    shown,
)


class RiskCoverageInfo(NamedTuple):
    """A curve thinned to what a figure can show, and the area below the whole one."""

    label: str
    coverage: NDArray[np.float64]
    risk: NDArray[np.float64]
    area: float


def risk_coverage_info(predictions: Predictions, label: str, max_points: int = 300) -> RiskCoverageInfo | None:
    """Error rate against the share of inputs answered, most confident first; None without labels."""
    if predictions.labels is None:
        return None
    curve = risk_coverage_curve(predictions.probabilities, predictions.labels)
    kept = np.unique(np.linspace(0, len(curve.coverage) - 1, max_points).round().astype(int))
    return RiskCoverageInfo(label, curve.coverage[kept], curve.risk[kept], curve.area)


def draw_risk_coverage(infos: Sequence[tuple[Domain, RiskCoverageInfo]]) -> Figure:
    """The curves of one run, in the colours of their domains."""
    return _draw_curves([(info, DOMAIN_COLOURS[domain], "-") for domain, info in infos])


def draw_risk_coverage_of_runs(infos: Sequence[RiskCoverageInfo | None]) -> Figure:
    """The curves of several runs on one domain, each in the style that its run has everywhere; None is left out."""
    styled = zip(infos, run_styles(len(infos)), strict=True)
    return _draw_curves([(info, *style) for info, style in styled if info is not None])


def _draw_curves(curves: Sequence[tuple[RiskCoverageInfo, str, str]]) -> Figure:
    figure = new_figure(height=2.9)
    axes = new_axes(figure, "coverage (share of inputs answered)", "error rate")
    for info, colour, line in curves:
        label = f"{shown(info.label)}, area {info.area:.3f}"
        axes.plot(info.coverage, info.risk, color=colour, linestyle=line, linewidth=1.6, label=label)
    for axis in (axes.xaxis, axes.yaxis):
        percentages(axis)
    axes.set_xlim(0, 1)
    # Errors of a perfect model are all zero, which is no range.
    axes.set_ylim(0, max(0.05, 1.1 * max(info.risk.max() for info, _, _ in curves)))
    list_below_each_other(figure, len(curves))
    return figure
