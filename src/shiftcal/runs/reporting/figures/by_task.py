"""Every method on every task: what holds over all of them, and where it does not."""

from __future__ import annotations

from typing import NamedTuple

from matplotlib.figure import Figure

from shiftcal.runs.reporting.figures.drawing import (
    list_below_each_other,
    new_figure,
    percentages,
    plain,
    run_styles,
    shown,
)
from shiftcal.runs.reporting.metric_names import LEARNING_METRICS, MetricName
from shiftcal.runs.reporting.tables import ComparisonTable

_MARKS = "osD^vPX*<>"


class ByTaskInfo(NamedTuple):
    """Means over seeds."""

    tasks: tuple[str, ...]
    """The mean over all tasks first, where there are several."""
    methods: tuple[str, ...]
    metrics: tuple[MetricName, ...]
    values: tuple[tuple[tuple[float | None, ...], ...], ...]
    """By task, method and metric; None for what was not run."""


def by_task_info(table: ComparisonTable) -> ByTaskInfo | None:
    """The leading metrics of a comparison; None where there is none of them."""
    wanted = [number for number, metric in enumerate(table.metrics) if metric in LEARNING_METRICS]
    if not wanted:
        return None
    values = tuple(
        tuple(tuple(entry.mean if (entry := row[number]) else None for number in wanted) for row in block.rows)
        for block in table.blocks
    )
    tasks = tuple(block.task for block in table.blocks)
    return ByTaskInfo(tasks, table.methods, tuple(table.metrics[number] for number in wanted), values)


def draw_by_task(info: ByTaskInfo) -> Figure:
    """A panel for each metric, a line for each task, a mark for each method."""
    figure = new_figure(9.4, 0.9 + 0.24 * len(info.tasks))
    panels = figure.subplots(1, len(info.metrics), sharey=True, squeeze=False)[0]
    styles = list(run_styles(len(info.methods)))
    places = range(len(info.tasks))
    for number, (axes, metric) in enumerate(zip(panels, info.metrics, strict=True)):
        plain(axes)
        for method, (colour, _) in enumerate(styles):
            points = [(place, value) for place in places if (value := info.values[place][method][number]) is not None]
            axes.plot(
                [value for _, value in points],
                [place for place, _ in points],
                linestyle="none",
                marker=_MARKS[method % len(_MARKS)],
                markersize=5,
                color=colour,
                alpha=0.85,
                label=shown(info.methods[method], 70) if number == 0 else None,
            )
        axes.set_xlabel(metric.heading.replace(" %", ""))
        if metric.is_percentage:
            percentages(axes.xaxis)
    panels[0].set_yticks(places, [shown(task, 44) for task in info.tasks])
    panels[0].invert_yaxis()
    list_below_each_other(figure, len(info.methods))
    return figure
