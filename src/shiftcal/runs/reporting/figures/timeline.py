"""Time lines of a monitor: estimated accuracy with its interval, and the drift of each column, batch by batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from shiftcal.runs.reporting.figures.drawing import (
    DOMAIN_COLOURS,
    FAINT,
    INK,
    RUN_COLOURS,
    new_axes,
    new_figure,
    percentages,
    plain,
    shown,
)
from shiftcal.target.batch_status import BatchStatus

_MOST_COLUMNS = 20
_MOST_TICKS = 12


class AccuracyLineInfo(NamedTuple):
    """One value for each batch; NaN where labels have not come."""

    names: tuple[str, ...]
    accuracy: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    truth: NDArray[np.float64]
    has_alarm: NDArray[np.bool_]
    reference: float


class DriftInfo(NamedTuple):
    """Distances (columns, batches) of the columns that have drifted most."""

    names: tuple[str, ...]
    columns: tuple[str, ...]
    distance: NDArray[np.float64]


def accuracy_line_info(statuses: Sequence[BatchStatus], reference_accuracy: float) -> AccuracyLineInfo:
    """Of all batches."""
    return AccuracyLineInfo(
        names=tuple(status.time for status in statuses),
        accuracy=np.array([status.accuracy for status in statuses]),
        low=np.array([status.low for status in statuses]),
        high=np.array([status.high for status in statuses]),
        truth=np.array([np.nan if s.true_accuracy is None else s.true_accuracy for s in statuses], dtype=np.float64),
        has_alarm=np.array([status.alarm for status in statuses]),
        reference=reference_accuracy,
    )


def drift_info(statuses: Sequence[BatchStatus]) -> DriftInfo:
    """Of the columns whose largest distance over the batches is largest."""
    columns = [column.name for column in statuses[0].drift]
    distance = np.array([[column.distance for column in status.drift] for status in statuses]).T
    order = np.argsort(-distance.max(axis=1), kind="stable")[:_MOST_COLUMNS]
    return DriftInfo(tuple(status.time for status in statuses), tuple(columns[row] for row in order), distance[order])


def draw_accuracy_line(info: AccuracyLineInfo) -> Figure:
    """The estimate in its band, the reference, the truth where it is known, alarms as rings."""
    figure = new_figure(width=9, height=3.4)
    axes = new_axes(figure, "", "accuracy")
    at = np.arange(len(info.names))
    colour = DOMAIN_COLOURS["target"]
    axes.axhline(info.reference, color=DOMAIN_COLOURS["source"], linestyle="--", linewidth=1, label="reference")
    axes.fill_between(at, info.low, info.high, color=colour, alpha=0.18, linewidth=0, label="90 % interval")
    axes.plot(at, info.accuracy, color=colour, marker="o", markersize=3, linewidth=1.4, label="estimated")
    if not np.isnan(info.truth).all():
        axes.plot(at, info.truth, color=INK, marker="x", markersize=4, linewidth=0.8, label="true")
    if info.has_alarm.any():
        axes.plot(
            at[info.has_alarm],
            info.accuracy[info.has_alarm],
            linestyle="",
            marker="o",
            markersize=9,
            markerfacecolor="none",
            markeredgecolor=RUN_COLOURS[5],
            label="alarm",
        )
    percentages(axes.yaxis)
    _name_batches(axes, info.names)
    figure.legend(loc="outside upper left", ncols=5)
    return figure


def draw_drift(info: DriftInfo) -> Figure:
    """A row for each column, a cell for each batch, the darker the farther from the reference."""
    figure = new_figure(width=9, height=1.0 + 0.22 * len(info.columns))
    axes = figure.subplots()
    plain(axes)
    axes.grid(visible=False)
    image = axes.imshow(info.distance, aspect="auto", cmap="Oranges", vmin=0, vmax=max(info.distance.max(), 0.1))
    axes.set_yticks(range(len(info.columns)), [shown(name) for name in info.columns])
    _name_batches(axes, info.names)
    bar = figure.colorbar(image, ax=axes, pad=0.01)
    bar.set_label("distance", color=INK)
    bar.outline.set_edgecolor(FAINT)
    return figure


def _name_batches(axes: Axes, names: Sequence[str]) -> None:
    step = -(-len(names) // _MOST_TICKS)
    at = range(0, len(names), step)
    axes.set_xticks(at, [shown(names[number], 20) for number in at], rotation=30, ha="right")
