"""Histogram of the estimated density ratio on the source and on the target."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from shiftcal.runs.reporting.contents import RunContents
from shiftcal.runs.reporting.figures.confidence import HistogramInfo, draw_overlaid, shares
from shiftcal.runs.reporting.figures.drawing import INK, new_axes, new_figure

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
