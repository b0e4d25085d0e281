"""A self-contained HTML page of one or several runs: what it holds, and how it is written."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from markupsafe import Markup

from shiftcal.core.errors import InvalidInputError
from shiftcal.core.files import written_whole
from shiftcal.metrics import compute_metrics
from shiftcal.runs.predictions import Predictions
from shiftcal.runs.reporting.contents import CellCurves, RunContents, check_runs
from shiftcal.runs.reporting.environment import page_environment, percent, whole
from shiftcal.runs.reporting.figure_sections import (
    NO_SHIFT,
    by_task_section,
    confusion_section,
    distribution_section,
    history_section,
    learning_curve_section,
    mean_curves_section,
    notes_once,
    pseudo_labels_section,
    ratio_accuracy_section,
    reliability_section,
    risk_coverage_section,
)
from shiftcal.runs.reporting.gallery import Gallery, gallery
from shiftcal.runs.reporting.headline import headline, run_sentence
from shiftcal.runs.reporting.metric_names import MISSING, REPORTED_METRICS
from shiftcal.runs.reporting.run_tables import ClassRow, card_groups, class_rows, row_tables
from shiftcal.runs.reporting.tables import ComparisonTable, as_html


class MetricRow(NamedTuple):
    """One run on one domain, in the words of the metric table."""

    run: str
    domain: str
    num_inputs: str
    confidence: str
    values: tuple[str, ...]


class ClassLine(NamedTuple):
    """One class on both domains."""

    name: str
    source: ClassRow
    target: ClassRow


def render_page(
    runs: Sequence[RunContents], title: str, table: ComparisonTable | None, curves: CellCurves, detail: str
) -> str:
    """The whole page as HTML."""
    return (
        page_environment()
        .get_template("report.html.j2")
        .render(
            title=title,
            detail=detail,
            # `as_html` escapes every name itself.
            comparison=Markup(as_html(table)) if table else None,
            by_task=by_task_section(table) if table else None,
            comparison_curves=mean_curves_section(curves),
            runs=runs,
            headline=headline(runs, table),
            **(_run_parts(runs) if runs else {}),
        )
    )


def _run_parts(runs: Sequence[RunContents]) -> dict[str, object]:
    sections = (
        reliability_section(runs),
        distribution_section(runs),
        ratio_accuracy_section(runs),
        risk_coverage_section(runs),
        confusion_section(runs),
        pseudo_labels_section(runs),
        learning_curve_section(runs),
    )
    rows = {run.name: row_tables(run.target, models_shift=run.models_shift) for run in runs}
    return {
        "verdicts": runs[0].verdicts if len(runs) == 1 else (),
        "sentences": [(run.name, run_sentence(run)) for run in runs] if len(runs) > 1 else [],
        "metric_names": REPORTED_METRICS,
        "metric_rows": metric_rows(runs),
        "metric_notes": _metric_notes(runs),
        # What can't be drawn, for want of labels mostly, is left out.
        "figure_sections": [section for section in sections if section is not None and section.num_figures],
        "row_tables": {name: tables for name, tables in rows.items() if tables is not None},
        "class_tables": {run.name: class_lines(run) for run in runs},
        "galleries": _galleries(runs),
        "no_shift": NO_SHIFT,
        "history_section": history_section(runs),
        "cards": {run.name: card_groups(run.card) for run in runs},
    }


def _galleries(runs: Sequence[RunContents]) -> dict[str, Gallery]:
    galleries = {run.name: gallery(run.target, ranked_by_ratio=run.models_shift) for run in runs}
    return {name: shown for name, shown in galleries.items() if shown is not None}


def _metric_notes(runs: Sequence[RunContents]) -> tuple[str, ...]:
    line = "The target has no labels, so what needs them is left out."
    return notes_once(runs, [(run.name, line) for run in runs if run.target.labels is None])


def metric_rows(runs: Sequence[RunContents]) -> tuple[MetricRow, ...]:
    """One row per run and domain; dashes where there are no labels."""
    return tuple(
        MetricRow(
            run.name, domain, whole(len(predictions)), percent(predictions.confidence.mean()), _written(predictions)
        )
        for run in runs
        for domain, predictions in run.domains
    )


def _written(predictions: Predictions) -> tuple[str, ...]:
    if predictions.labels is None:
        return (MISSING,) * len(REPORTED_METRICS)
    metrics = compute_metrics(predictions.probabilities, predictions.labels)
    return tuple(metric.written(metrics[metric.key]) for metric in REPORTED_METRICS)


def class_lines(run: RunContents) -> tuple[ClassLine, ...]:
    """One line per class, in the order of the classes."""
    names = map(str, run.target.classes)
    return tuple(map(ClassLine, names, class_rows(run.source), class_rows(run.target)))


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
