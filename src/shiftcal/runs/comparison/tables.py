"""From finished cells to tables and the report of a comparison."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from shiftcal.core.csv_writing import write_csv
from shiftcal.core.errors import InvalidInputError
from shiftcal.runs.comparison.plan import Folders
from shiftcal.runs.experiment import read_contents
from shiftcal.runs.folder import RunFolder
from shiftcal.runs.reporting import Cell, ComparisonTable, as_markdown, comparison_table, write_report
from shiftcal.runs.tasks import SEPARATOR
from shiftcal.runs.text_files import reading, write_text

# Of the source a comparison tells these; whatever else there is stands in the folders of the cells.
_SOURCE_METRICS = ("accuracy", "expected_calibration_error", "brier_score")


def write_tables(
    out: Path, folders: Folders, *, report: Path | None = None, trained: Folders | None = None
) -> ComparisonTable:
    """Write the tables and the report of a comparison.

    Args:
        out: folder for results.csv, table.md and, if any cell has a learning curve, learning_curves.csv.
        folders: finished cells by (task, method, seed).
        report: where the report goes instead of report.html in `out`.
        trained: cells that may have a learning curve, if these are not the same.
    """
    metrics = {key: _compared_metrics(folder) for key, folder in folders.items()}
    if all("accuracy" not in numbers for numbers in metrics.values()):
        raise InvalidInputError("a comparison needs labels of the target for evaluation, and no task has any")
    cells = [
        Cell(*key, {name: value for name, value in numbers.items() if value is not None})
        for key, numbers in metrics.items()
    ]
    table = comparison_table(cells)
    _write_csv(out / "results.csv", cells)
    candidates = {key: folder.read_learning_curve() for key, folder in (trained or folders).items()}
    curves = {key: rows for key, rows in candidates.items() if rows}
    if curves:
        _write_csv(out / "learning_curves.csv", [Cell(*key, row) for key, rows in curves.items() for row in rows])
    else:
        (out / "learning_curves.csv").unlink(missing_ok=True)
    write_text(out / "table.md", as_markdown(table) + "\n")
    shown_task, shown_seed = next((task, seed) for task, _, seed in folders)
    shown = [
        replace(read_contents(folder), name=method)
        for (task, method, seed), folder in folders.items()
        if (task, seed) == (shown_task, shown_seed)
    ]
    tasks, methods = ({key[place] for key in folders} for place in (0, 1))
    title = f"{len(methods)} methods on {len(tasks)} task{'s' if len(tasks) > 1 else ''}"
    detail = f"{shown_task.replace(SEPARATOR, ' → ')}, seed {shown_seed}"
    write_report(shown, report or out / "report.html", title=title, table=table, curves=curves, detail=detail)
    return table


def _compared_metrics(folder: RunFolder) -> dict[str, float | None]:
    """Those of the target by their names, and some of the source under names of their own."""
    metrics = folder.read_metrics()
    source = metrics["source"] if metrics["source"].get("held_out") else {}
    return metrics["target"] | {f"source_{name}": source.get(name) for name in _SOURCE_METRICS}


def find_cells(out: Path) -> Folders:
    """Finished cells below the folder of a comparison, by (task, method, seed)."""
    found = {}
    for marker in sorted((out / "cells").glob("*/*/*/metrics.json")):
        folder = RunFolder(marker.parent)
        card = folder.read_card()
        with reading(folder.card):
            found[str(card["task"]), str(card["contender"]), int(card["seed"])] = folder
    return found


def _write_csv(path: Path, cells: Sequence[Cell]) -> None:
    names = list(dict.fromkeys(name for cell in cells for name in cell.metrics))
    rows = ([c.task, c.method, c.seed, *(c.metrics.get(name, "") for name in names)] for c in cells)
    write_csv(path, ["task", "method", "seed", *names], rows)
