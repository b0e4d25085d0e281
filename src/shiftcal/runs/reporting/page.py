"""The page: everything a report shows, as the template wants it."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from typing import NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from shiftcal.metrics import compute_metrics
from shiftcal.runs.predictions import Predictions
from shiftcal.runs.reporting.class_table import ClassRow, class_rows
from shiftcal.runs.reporting.contents import CellCurves, RunContents
from shiftcal.runs.reporting.figure_sections import (
    NO_SHIFT,
    distribution_section,
    history_section,
    learning_curve_section,
    mean_curves_section,
    missing_labels,
    notes_once,
    pseudo_labels_section,
    ratio_accuracy_section,
    reliability_section,
    risk_coverage_section,
)
from shiftcal.runs.reporting.gallery import Gallery, gallery
from shiftcal.runs.reporting.headline import headline, run_sentence
from shiftcal.runs.reporting.metric_names import MISSING, REPORTED_METRICS
from shiftcal.runs.reporting.run_card import card_groups
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


def render_page(runs: Sequence[RunContents], title: str, table: ComparisonTable | None, curves: CellCurves) -> str:
    """The whole page as HTML."""
    return (
        page_environment()
        .get_template("report.html.j2")
        .render(
            title=title,
            # `as_html` escapes every name itself.
            comparison=Markup(as_html(table)) if table else None,
            comparison_curves=mean_curves_section(curves),
            runs=runs,
            headline=headline(runs, table),
            **(_run_parts(runs) if runs else {}),
        )
    )


def page_environment() -> Environment:
    """The templates, and how they write numbers."""
    environment = Environment(
        loader=PackageLoader("shiftcal.runs.reporting"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"percent": _percent, "number": _number, "whole": _whole}
    environment.globals["version"] = version("shiftcal")
    return environment


def _run_parts(runs: Sequence[RunContents]) -> dict[str, object]:
    optional = (pseudo_labels_section(runs), learning_curve_section(runs))
    return {
        "verdicts": runs[0].verdicts if len(runs) == 1 else (),
        "sentences": [(run.name, run_sentence(run)) for run in runs] if len(runs) > 1 else [],
        "metric_names": REPORTED_METRICS,
        "metric_rows": metric_rows(runs),
        "metric_notes": _metric_notes(runs),
        "figure_sections": [
            reliability_section(runs),
            distribution_section(runs),
            ratio_accuracy_section(runs),
            risk_coverage_section(runs),
            *(section for section in optional if section is not None),
        ],
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
    unlabelled = [run.name for run in runs if run.target.labels is None]
    return notes_once(runs, [(name, missing_labels("target", "its metrics are not known")) for name in unlabelled])


def metric_rows(runs: Sequence[RunContents]) -> tuple[MetricRow, ...]:
    """One row per run and domain; dashes where there are no labels."""
    return tuple(
        MetricRow(
            run.name, domain, _whole(len(predictions)), _percent(predictions.confidence.mean()), _written(predictions)
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


def _percent(share: float | None) -> str:
    return MISSING if share is None else f"{100 * share:.1f}"


def _number(value: float | None) -> str:
    if value is None:
        return MISSING
    return f"{value:.2f}" if value >= 0.1 else f"{value:.2g}"


def _whole(count: int | None) -> str:
    return MISSING if count is None else f"{count:,}"
