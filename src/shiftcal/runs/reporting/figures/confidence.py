"""Histogram of confidence on the source and on the target."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from shiftcal.runs.reporting.contents import Domain, RunContents
from shiftcal.runs.reporting.figures.drawing import DOMAIN_COLOURS, new_axes, new_figure, percentages


class HistogramInfo(NamedTuple):
    """Share of each domain's inputs per bin; `centre` is what the legend tells of a domain."""

    edges: NDArray[np.float64]
    source_share: NDArray[np.float64]
    target_share: NDArray[np.float64]
    source_centre: float
    target_centre: float

    @property
    def domains(self) -> tuple[tuple[Domain, NDArray[np.float64], float], ...]:
        """Name, shares and centre of each domain."""
        return ("source", self.source_share, self.source_centre), ("target", self.target_share, self.target_centre)


def shares(values: NDArray[np.float64], edges: NDArray[np.float64]) -> NDArray[np.float64]:
    """Share of the values per bin; those beyond the edges count in the outermost bins, so the sum is 1."""
    counts, _ = np.histogram(np.clip(values, edges[0], edges[-1]), edges)
    return counts / len(values)


def confidence_info(run: RunContents, num_bins: int = 20) -> HistogramInfo:
    """Shares of inputs in equal-width bins of the predicted class's probability, and its means."""
    edges = np.linspace(0.0, 1.0, num_bins + 1)
    source, target = run.source.confidence, run.target.confidence
    return HistogramInfo(
        edges, shares(source, edges), shares(target, edges), float(source.mean()), float(target.mean())
    )


def draw_confidence(info: HistogramInfo) -> Figure:
    """Both histograms over each other, with a line at each mean."""
    figure = new_figure()
    axes = new_axes(figure, "confidence", "share of inputs")
    draw_overlaid(axes, info, "{domain}, mean {centre:.2f}")
    axes.set_xlim(0, 1)
    figure.legend(loc="outside upper center", ncols=2)
    return figure


def draw_overlaid(axes: Axes, info: HistogramInfo, label: str) -> None:
    """Source and target as filled steps in their colours, each with a dashed line at its centre."""
    for domain, share, centre in info.domains:
        colour = DOMAIN_COLOURS[domain]
        axes.stairs(share, info.edges, fill=True, color=colour, alpha=0.22)
        axes.stairs(share, info.edges, color=colour, linewidth=1.4, label=label.format(domain=domain, centre=centre))
        axes.axvline(centre, color=colour, linestyle="--", linewidth=1)
    percentages(axes.yaxis)
    axes.set_ylim(0, 1.05 * max(info.source_share.max(), info.target_share.max()))
