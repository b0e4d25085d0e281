"""Methods against each other: mean and spread over seeds, per task and over all tasks."""

from __future__ import annotations

import html
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from shiftcal.core.errors import InvalidInputError
from shiftcal.runs.reporting.metric_names import COMPARED_METRICS, MISSING, MetricName

ALL_TASKS = "All tasks"


@dataclass(frozen=True)
class Cell:
    """The metrics of one method on one task with one seed."""

    task: str
    method: str
    seed: int
    metrics: Mapping[str, float]


@dataclass(frozen=True)
class Entry:
    """Mean and sample standard deviation over seeds; the deviation is None for a single seed."""

    mean: float
    spread: float | None
    num_seeds: int
    best: bool = False
    """Whether no method has a better mean in this column."""


@dataclass(frozen=True)
class TaskBlock:
    """The part of a comparison that belongs to one task: one row per method, one entry per metric."""

    task: str
    rows: tuple[tuple[Entry | None, ...], ...]


@dataclass(frozen=True)
class ComparisonTable:
    """Rows are methods, columns are metrics, in one block per task."""

    methods: tuple[str, ...]
    metrics: tuple[MetricName, ...]
    blocks: tuple[TaskBlock, ...]


def comparison_table(cells: Sequence[Cell]) -> ComparisonTable:
    """Arrange cells in the order in which their tasks and methods first occur.

    Columns are the metrics that any cell has. With several tasks a first block shows the mean over tasks of each
    seed, then mean and spread over seeds. Only seeds that a method has for every task count there, since means over
    different tasks can't be compared.

    Raises:
        InvalidInputError: a task, method and seed occur twice.
    """
    _check_unique(cells)
    methods = tuple(dict.fromkeys(cell.method for cell in cells))
    tasks = tuple(dict.fromkeys(cell.task for cell in cells))
    metrics = tuple(metric for metric in COMPARED_METRICS if any(metric.column in cell.metrics for cell in cells))
    parts: dict[str, tuple[list[Cell], tuple[str, ...]]] = {
        task: ([cell for cell in cells if cell.task == task], (task,)) for task in tasks
    }
    if len(tasks) > 1:
        parts = {ALL_TASKS: (list(cells), tasks), **parts}
    blocks = tuple(TaskBlock(title, _rows(own, methods, metrics, of)) for title, (own, of) in parts.items())
    return ComparisonTable(methods, metrics, blocks)


def _check_unique(cells: Sequence[Cell]) -> None:
    seen: set[tuple[str, str, int]] = set()
    for cell in cells:
        key = (cell.task, cell.method, cell.seed)
        if key in seen:
            raise InvalidInputError(f"expected one cell per task, method and seed, got {key!r} twice")
        seen.add(key)


def _rows(
    cells: Sequence[Cell], methods: Sequence[str], metrics: Sequence[MetricName], tasks: Sequence[str]
) -> tuple[tuple[Entry | None, ...], ...]:
    columns = []
    for metric in metrics:
        entries = [_entry([cell for cell in cells if cell.method == method], metric, tasks) for method in methods]
        columns.append(_mark_best(entries, metric))
    return tuple(zip(*columns, strict=True)) if columns else ((),) * len(methods)


def _entry(cells: Sequence[Cell], metric: MetricName, tasks: Sequence[str]) -> Entry | None:
    by_seed: dict[int, list[float]] = {}
    for cell in cells:
        value = cell.metrics.get(metric.column, math.nan)
        if not math.isnan(value):
            by_seed.setdefault(cell.seed, []).append(value)
    means = [statistics.fmean(values) for values in by_seed.values() if len(values) == len(tasks)]
    if not means:
        return None
    return Entry(statistics.fmean(means), statistics.stdev(means) if len(means) > 1 else None, len(means))


def _mark_best(entries: Sequence[Entry | None], metric: MetricName) -> list[Entry | None]:
    means = [entry.mean for entry in entries if entry is not None]
    # The only value of a column is not better than anything.
    if len(means) < 2:
        return list(entries)
    best = max(means) if metric.higher_is_better else min(means)
    return [
        entry and Entry(entry.mean, entry.spread, entry.num_seeds, best=math.isclose(entry.mean, best))
        for entry in entries
    ]


def written_entry(entry: Entry | None, metric: MetricName) -> str:
    """An entry as "81.2 ± 0.4", without the spread where there is a single seed."""
    if entry is None:
        return MISSING
    mean = metric.written(entry.mean)
    return mean if entry.spread is None else f"{mean} ± {metric.written(entry.spread)}"


def as_text(table: ComparisonTable) -> str:
    """For the terminal: one aligned block per task, the best value of a column followed by a star."""
    return "\n\n".join(_aligned(_grid(table, block, "{}*")) for block in table.blocks)


def as_markdown(table: ComparisonTable) -> str:
    """One Markdown table per task, headed by its name, the best value of a column in bold."""
    return "\n\n".join(_piped(_grid(table, block, "**{}**")) for block in table.blocks)


def as_html(table: ComparisonTable) -> str:
    """One HTML table per task, the best value of a column in `<strong>`; every name is escaped."""
    return "\n".join(_html_block(table, block) for block in table.blocks)


def _grid(table: ComparisonTable, block: TaskBlock, best: str) -> list[list[str]]:
    grid = [[block.task, *(metric.heading for metric in table.metrics)]]
    for method, entries in zip(table.methods, block.rows, strict=True):
        written = [
            best.format(written_entry(entry, metric)) if entry and entry.best else written_entry(entry, metric)
            for entry, metric in zip(entries, table.metrics, strict=True)
        ]
        grid.append([method, *written])
    return grid


def _aligned(grid: Sequence[Sequence[str]]) -> str:
    # A star takes a place of its own, so that the digits of a column stay below each other.
    padded = [[row[0], *(value if value.endswith("*") else f"{value} " for value in row[1:])] for row in grid]
    widths = [max(len(row[index]) for row in padded) for index in range(len(padded[0]))]
    lines = ["  ".join([row[0].ljust(widths[0]), *(map(str.rjust, row[1:], widths[1:]))]).rstrip() for row in padded]
    return "\n".join([lines[0], "─" * (sum(widths) + 2 * (len(widths) - 1)), *lines[1:]])


def _piped(grid: Sequence[Sequence[str]]) -> str:
    rule = "| --- |" + " ---: |" * (len(grid[0]) - 1)
    lines = [_piped_row(row) for row in grid]
    return "\n".join([lines[0], rule, *lines[1:]])


def _piped_row(values: Iterable[str]) -> str:
    return "| " + " | ".join(value.replace("|", "\\|").replace("\n", " ") for value in values) + " |"


def _html_block(table: ComparisonTable, block: TaskBlock) -> str:
    heads = "".join(f'<th scope="col">{html.escape(metric.heading)}</th>' for metric in table.metrics)
    body = []
    for method, entries in zip(table.methods, block.rows, strict=True):
        values = "".join(map(_html_entry, entries, table.metrics))
        body.append(f'<tr><th scope="row">{html.escape(method)}</th>{values}</tr>')
    return (
        f'<div class="scroll"><table class="numbers"><caption>{html.escape(block.task)}</caption>'
        f'<thead><tr><th scope="col">Method</th>{heads}</tr></thead><tbody>{"".join(body)}</tbody></table></div>'
    )


def _html_entry(entry: Entry | None, metric: MetricName) -> str:
    written = html.escape(written_entry(entry, metric))
    return f"<td><strong>{written}</strong></td>" if entry and entry.best else f"<td>{written}</td>"
