"""Learning curves: metrics of the target against the epoch, one line per run or, in a comparison, per method.

They are drawn by `draw_history`: each metric is one more quantity by epoch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from statistics import fmean

from shiftcal.runs.reporting.contents import CellCurves, Curve
from shiftcal.runs.reporting.figures.history import HistoryInfo, HistoryLine, history_line
from shiftcal.runs.reporting.metric_names import LEARNING_METRICS, MetricName


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
