"""A report: one HTML file that needs nothing but a browser."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from shiftcal.core.errors import InvalidInputError
from shiftcal.core.files import written_whole
from shiftcal.runs.reporting.contents import CellCurves, RunContents, check_runs
from shiftcal.runs.reporting.tables import ComparisonTable


def write_report(
    runs: Sequence[RunContents],
    path: Path,
    *,
    title: str,
    table: ComparisonTable | None = None,
    curves: CellCurves | None = None,
    detail: str = "",
) -> None:
    """Write a self-contained page to `path`.

    Args:
        runs: what is shown in detail.
        path: of the page.
        title: of the page.
        table: of a comparison.
        curves: learning curves of the comparison.
        detail: which part of the comparison the runs are.

    Raises:
        InvalidInputError: there is nothing to show, or a run has no inputs, bad ratios or another's name.
        OutputError: `path` can't be written.
    """
    # Drawing takes a second to import, which commands without a report should not wait for.
    from shiftcal.runs.reporting.page import render_page

    if not runs and table is None:
        raise InvalidInputError("expected at least one run or a comparison table to report on, got neither")
    check_runs(runs)
    page = render_page(runs, title, table, curves or {}, detail)
    with written_whole(path) as temporary:
        temporary.write_text(page, encoding="utf-8")
