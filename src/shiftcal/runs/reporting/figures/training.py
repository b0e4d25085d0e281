"""What is drawn of a training: losses by epoch, learning curves, pseudo-labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from statistics import fmean
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from shiftcal.runs.reporting.contents import CellCurves, Curve, RunContents
from shiftcal.runs.reporting.figures.drawing import (
    DOMAIN_COLOURS,
    FAINT,
    INK,
    RUN_COLOURS,
    list_below_each_other,
    new_axes,
    new_figure,
    percentages,
    run_styles,
    shown,
)
from shiftcal.runs.reporting.metric_names import LEARNING_METRICS, MetricName


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


def learning_curve_info(curves: Mapping[str, Curve]) -> tuple[HistoryInfo, ...]:
    """The metrics that are shown, headed as in tables, with a line for each name (empty where it has no curve)."""
    infos = (
        HistoryInfo(metric.heading, tuple(_line(name, curve, metric) for name, curve in curves.items()))
        for metric in LEARNING_METRICS
    )
    return tuple(info for info in infos if any(len(line.value) for line in info.lines))


def _line(name: str, curve: Curve, metric: MetricName) -> HistoryLine:
    line = history_line(name, curve, metric.column)
    return line._replace(value=100 * line.value) if metric.is_percentage else line


def mean_curves(curves: CellCurves) -> dict[str, list[dict[str, float]]]:
    """One curve per method, the mean over tasks and seeds.

    Only seeds with a curve for every task count, since means over different tasks can't be compared, and for the
    same reason only epochs that all of these curves have.
    """
    num_tasks = len({task for task, _, _ in curves})
    by_method: dict[str, dict[int, list[Curve]]] = {}
    for (_, method, seed), curve in curves.items():
        by_method.setdefault(method, {}).setdefault(seed, []).append(curve)
    return {
        method: _mean([curve for own in by_seed.values() if len(own) == num_tasks for curve in own])
        for method, by_seed in by_method.items()
    }


def _mean(curves: Sequence[Curve]) -> list[dict[str, float]]:
    by_epoch: dict[float, list[Mapping[str, float]]] = {}
    for row in chain.from_iterable(curves):
        by_epoch.setdefault(row["epoch"], []).append(row)
    return [
        {name: fmean(row[name] for row in rows) for name in rows[0] if all(name in row for row in rows)}
        for _, rows in sorted(by_epoch.items())
        if len(rows) == len(curves)
    ]


# More names than this would not be legible below each other.
_MOST_NAMED_CLASSES = 20


class PseudoLabelsInfo(NamedTuple):
    """Shares by round, and by class in the last round."""

    epoch: NDArray[np.int64]
    selected: NDArray[np.float64]
    """Of the target rows."""
    agreement: NDArray[np.float64]
    """With the round before; NaN where there is nothing to compare."""
    estimated_precision: NDArray[np.float64]
    true_precision: NDArray[np.float64] | None
    classes: tuple[str, ...]
    class_share: NDArray[np.float64]
    """Of the labels of the last round."""


def pseudo_labels_info(run: RunContents) -> PseudoLabelsInfo | None:
    """What is known of the run's pseudo-labels; None if it had none."""
    rounds = run.pseudo_labels
    if rounds is None or len(rounds) == 0:
        return None
    classes = tuple(map(str, run.target.classes))
    return PseudoLabelsInfo(
        rounds.epochs,
        rounds.share,
        rounds.agreement,
        rounds.estimated_precision,
        rounds.true_precision,
        classes,
        rounds.class_shares(len(classes)),
    )


def draw_pseudo_labels(info: PseudoLabelsInfo) -> Figure:
    """Shares by round, against the epoch that each round belongs to."""
    lines = [
        (info.selected, FAINT, "-", "target rows selected"),
        (info.agreement, RUN_COLOURS[4], ":", "labels as in the round before"),
        (info.estimated_precision, INK, "--", "labels right, as the model believes"),
    ]
    if info.true_precision is not None:
        lines.append((info.true_precision, DOMAIN_COLOURS["target"], "-", "labels right"))
    figure = new_figure(height=2.7)
    axes = new_axes(figure, "epoch", "share")
    marker = "o" if len(info.epoch) <= 30 else ""
    for share, colour, style, label in lines:
        axes.plot(
            info.epoch, share, color=colour, linestyle=style, linewidth=1.4, marker=marker, markersize=3, label=label
        )
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    percentages(axes.yaxis)
    axes.set_ylim(0, 1.03)
    list_below_each_other(figure, len(lines))
    return figure


def draw_class_shares(info: PseudoLabelsInfo) -> Figure:
    """Share of each class in the last round; a dashed line is where all classes would be alike."""
    num_classes = len(info.classes)
    named = num_classes <= _MOST_NAMED_CLASSES
    figure = new_figure(height=max(2.7, 0.8 + 0.2 * num_classes) if named else 3.2)
    axes = new_axes(figure, "share of the selected rows", "" if named else "class number")
    positions = np.arange(num_classes)
    axes.barh(positions, info.class_share, height=0.75 if named else 1.0, color=DOMAIN_COLOURS["target"])
    axes.axvline(1 / num_classes, color=INK, linestyle="--", linewidth=1)
    if named:
        axes.set_yticks(positions, [shown(name, max_length=20) for name in info.classes])
    axes.set_ylim(num_classes - 0.5, -0.5)
    percentages(axes.xaxis)
    return figure
