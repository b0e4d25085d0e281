"""Training history: each recorded quantity against the epoch, one line per run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from shiftcal.runs.reporting.contents import RunContents
from shiftcal.runs.reporting.figures.drawing import list_below_each_other, new_axes, new_figure, run_styles, shown


class HistoryLine(NamedTuple):
    """The finite values of one quantity in one run."""

    run: str
    epoch: NDArray[np.float64]
    value: NDArray[np.float64]


class HistoryInfo(NamedTuple):
    """One quantity, one line per run of the report (empty where a run has not recorded it)."""

    quantity: str
    lines: tuple[HistoryLine, ...]


def history_info(runs: Sequence[RunContents]) -> tuple[HistoryInfo, ...]:
    """Every quantity that any run recorded, in the order of first appearance."""
    quantities = dict.fromkeys(key for run in runs for record in run.history for key in record if key != "epoch")
    infos = (HistoryInfo(key, tuple(history_line(run.name, run.history, key) for run in runs)) for key in quantities)
    return tuple(info for info in infos if any(len(line.value) for line in info.lines))


def history_line(
    run: str, records: Sequence[Mapping[str, float]], quantity: str, max_points: int = 1000
) -> HistoryLine:
    """The line of one quantity in records of epochs."""
    points = [
        (float(record.get("epoch", position)), float(record[quantity]))
        for position, record in enumerate(records, start=1)
        if quantity in record
    ]
    pairs = np.array(points, dtype=np.float64).reshape(-1, 2)
    pairs = pairs[np.isfinite(pairs).all(axis=1)]
    # A slice with a step keeps the shape of a long history without a point per step.
    pairs = pairs[:: max(1, -(-len(pairs) // max_points))]
    return HistoryLine(run, pairs[:, 0], pairs[:, 1])


def draw_history(info: HistoryInfo) -> Figure:
    """One line per run; single epochs are seen as points."""
    figure = new_figure(width=3.6, height=2.5)
    axes = new_axes(figure, "epoch", shown(info.quantity.replace("_", " ")))
    styles = zip(info.lines, run_styles(len(info.lines)), strict=True)
    drawn = [(line, style) for line, style in styles if len(line.value)]
    for line, (colour, style) in drawn:
        marker = "o" if len(line.value) <= 30 else ""
        axes.plot(
            line.epoch,
            line.value,
            color=colour,
            linestyle=style,
            linewidth=1.4,
            marker=marker,
            markersize=3,
            label=shown(line.run),
        )
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    if len(info.lines) > 1:
        list_below_each_other(figure, len(drawn))
    return figure
