"""The sections of a report that consist of figures: which figure, which caption, and what to say instead."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from matplotlib.figure import Figure

from shiftcal.runs.reporting.contents import CellCurves, Curve, RunContents
from shiftcal.runs.reporting.figures.by_task import by_task_info, draw_by_task
from shiftcal.runs.reporting.figures.calibration import (
    HistogramInfo,
    confidence_info,
    draw_confidence,
    draw_reliability,
    draw_risk_coverage,
    draw_risk_coverage_of_runs,
    reliability_info,
    risk_coverage_info,
)
from shiftcal.runs.reporting.figures.confusion import confusion_info, draw_confusion
from shiftcal.runs.reporting.figures.density_ratio import (
    density_ratio_info,
    draw_density_ratio,
    draw_ratio_accuracy,
    ratio_accuracy_info,
)
from shiftcal.runs.reporting.figures.drawing import as_data_uri
from shiftcal.runs.reporting.figures.training import (
    draw_class_shares,
    draw_history,
    draw_pseudo_labels,
    history_info,
    learning_curve_info,
    mean_curves,
    pseudo_labels_info,
)
from shiftcal.runs.reporting.tables import ComparisonTable

NO_SHIFT = "No shift is modelled: the density ratio is 1 everywhere."
_CURVES_ARE_OF = (
    "by the network as it stood then: without a calibrator, and without what a method settles when training has ended"
)


class PlacedFigure(NamedTuple):
    """A figure with its words."""

    data_uri: str
    alternative: str
    """What the figure shows, for readers who do not see it."""
    caption: str


class FigureSection(NamedTuple):
    """A heading, how to read the figures, the figures, and lines that stand for those that can't be drawn."""

    anchor: str
    heading: str
    explanation: str
    rows: tuple[tuple[PlacedFigure, ...], ...]
    """Figures that belong side by side; a row that is too long for the page is continued below."""
    notes: tuple[str, ...]

    @property
    def num_figures(self) -> int:
        """Figures in all rows."""
        return sum(map(len, self.rows))


def captioned(run: RunContents, runs: Sequence[RunContents], words: str) -> str:
    """The words, after the run's name if there are others."""
    return words if len(runs) == 1 else f"{run.name}: {words}"


def notes_once(runs: Sequence[RunContents], notes: Sequence[tuple[str, str]]) -> tuple[str, ...]:
    """(run, note) pairs as lines; a note that holds for every run is said once, without names."""
    lines = []
    for note in dict.fromkeys(note for _, note in notes):
        names = [name for name, said in notes if said == note]
        lines.append(note if len(names) == len(runs) else f"{', '.join(names)}: {note}")
    return tuple(lines)


def reliability_section(runs: Sequence[RunContents]) -> FigureSection:
    """One diagram per run and domain, a row per run."""
    rows = []
    for run in runs:
        figures = []
        for domain, predictions in run.domains:
            info = reliability_info(predictions, domain)
            if info is None:
                continue
            words = f"{domain}, ECE {info.calibration_error:.3f}"
            alternative = f"Reliability diagram of {run.name} on the {words}, {len(info.num_inputs)} bins with inputs"
            caption = captioned(run, runs, words)
            figures.append(PlacedFigure(as_data_uri(draw_reliability, info), alternative, caption))
        rows.append(tuple(figures))
    explanation = (
        "Inputs are grouped by the confidence of the prediction: a bar that ends at the dashed line is a group "
        "that is right as often as the model says; a hatched part below the line is over-confidence, one above it "
        "under-confidence."
    )
    return FigureSection("reliability", "Reliability", explanation, tuple(rows), ())


def distribution_section(runs: Sequence[RunContents]) -> FigureSection:
    """Confidence and density ratio side by side, a row per run."""
    rows: list[tuple[PlacedFigure, ...]] = []
    notes = []
    for run in runs:
        ratio = density_ratio_info(run)
        confidence = _distribution(run, runs, "confidence", "mean", draw_confidence, confidence_info(run))
        if ratio is None:
            notes.append((run.name, NO_SHIFT))
            rows.append((confidence,))
        else:
            density = _distribution(run, runs, "density ratio", "median", draw_density_ratio, ratio)
            rows.append((confidence, density))
    explanation = "Confidence should fall where the data is unfamiliar (dashed: means)."
    if any(run.models_shift for run in runs):
        explanation += (
            " The density ratio says how much likelier an input is in the source than in the target: the further the "
            "two histograms are apart, the larger the shift (dashed: medians; solid line: equally likely in both)."
        )
    return FigureSection(
        "distributions", "Confidence and density ratio", explanation, tuple(rows), notes_once(runs, notes)
    )


def _distribution(
    run: RunContents,
    runs: Sequence[RunContents],
    what: str,
    centre: str,
    draw: Callable[[HistogramInfo], Figure],
    info: HistogramInfo,
) -> PlacedFigure:
    alternative = (
        f"Histograms of the {what} of {run.name}: {centre} {info.source_centre:.2f} on the source, "
        f"{info.target_centre:.2f} on the target"
    )
    return PlacedFigure(as_data_uri(draw, info), alternative, captioned(run, runs, what))


def ratio_accuracy_section(runs: Sequence[RunContents]) -> FigureSection:
    """One figure per run."""
    figures, notes = [], []
    for run in runs:
        if not run.models_shift:
            notes.append((run.name, NO_SHIFT))
            continue
        candidates = (ratio_accuracy_info(predictions, domain) for domain, predictions in run.domains)
        infos = tuple(info for info in candidates if info is not None)
        if infos:
            alternative = f"Accuracy and confidence of {run.name} in bins of the density ratio"
            caption = captioned(run, runs, " and ".join(info.domain for info in infos))
            figures.append(PlacedFigure(as_data_uri(draw_ratio_accuracy, infos), alternative, caption))
    explanation = (
        "Inputs are grouped by density ratio, the least source-like on the left: where the ratio is informative, "
        "accuracy rises to the right, and where the model is calibrated the hollow points lie on the filled ones "
        "(bars: one standard error)."
    )
    return FigureSection(
        "ratio-accuracy", "Accuracy by density ratio", explanation, (tuple(figures),), notes_once(runs, notes)
    )


def risk_coverage_section(runs: Sequence[RunContents]) -> FigureSection:
    """One figure per run, after one that compares the runs on the target if there are several."""
    figures = []
    for run in runs:
        candidates = ((domain, risk_coverage_info(predictions, domain)) for domain, predictions in run.domains)
        infos = tuple((domain, info) for domain, info in candidates if info is not None)
        if infos:
            areas = ", ".join(f"area {info.area:.3f} on the {domain}" for domain, info in infos)
            alternative = f"Risk-coverage curves of {run.name}: {areas}"
            caption = captioned(run, runs, " and ".join(domain for domain, _ in infos))
            figures.append(PlacedFigure(as_data_uri(draw_risk_coverage, infos), alternative, caption))
    explanation = (
        "The error rate if only the most confident share of the inputs is answered: the lower the curve and the "
        "smaller the area below it, the better confidence tells right answers from wrong ones."
    )
    return FigureSection(
        "risk-coverage",
        "Risk and coverage",
        explanation,
        ((*_runs_on_target(runs), *figures),),
        (),
    )


def _runs_on_target(runs: Sequence[RunContents]) -> list[PlacedFigure]:
    infos = tuple(risk_coverage_info(run.target, run.name) for run in runs)
    areas = [f"{info.label} {info.area:.3f}" for info in infos if info is not None]
    if len(areas) < 2:
        return []
    alternative = f"Risk-coverage curves on the target, areas: {', '.join(areas)}"
    return [PlacedFigure(as_data_uri(draw_risk_coverage_of_runs, infos), alternative, "All runs: target")]


def pseudo_labels_section(runs: Sequence[RunContents]) -> FigureSection | None:
    """Two figures per run with pseudo-labels, a row per run; None if there is no such run."""
    infos = [(run, info) for run in runs if (info := pseudo_labels_info(run)) is not None]
    if not infos:
        return None
    rows = []
    for run, info in infos:
        precision = info.estimated_precision if info.true_precision is None else info.true_precision
        words = "by its own estimate" if info.true_precision is None else "in truth"
        by_round = (
            f"Pseudo-labels of {run.name} by round: in the last one {100 * info.selected[-1]:.1f} % of the target, "
            f"{100 * precision[-1]:.1f} % of them right {words}"
        )
        by_class = f"Share of each class in the last pseudo-labels of {run.name}"
        rows.append(
            (
                PlacedFigure(as_data_uri(draw_pseudo_labels, info), by_round, captioned(run, runs, "by round")),
                PlacedFigure(as_data_uri(draw_class_shares, info), by_class, captioned(run, runs, "last round")),
            )
        )
    explanation = (
        "Self-training takes target rows as labelled by the model itself: it helps while most of these labels are "
        "right. A model that believes them right more often than they are teaches itself its own errors; labels that "
        "no longer change have settled, and a class that is missing in the last round will not come back by itself "
        "(dashed: all classes alike)."
    )
    return FigureSection("pseudo-labels", "Pseudo-labels", explanation, tuple(rows), ())


def learning_curve_section(runs: Sequence[RunContents]) -> FigureSection | None:
    """One figure per metric, one line per run with a curve; None if there is no such run."""
    if not any(run.learning_curve for run in runs):
        return None
    figures = _curve_figures({run.name: run.learning_curve for run in runs})
    notes = [(run.name, "No learning curve was recorded.") for run in runs if not run.learning_curve]
    explanation = f"Metrics of the target after each epoch of training, {_CURVES_ARE_OF}."
    return FigureSection("learning-curve", "Learning curve", explanation, (figures,), notes_once(runs, notes))


def by_task_section(table: ComparisonTable) -> FigureSection | None:
    """One picture of every method on every task; None where there is nothing to draw."""
    info = by_task_info(table)
    if info is None:
        return None
    words = f"{len(info.methods)} methods on {len(table.blocks)} lines of tasks"
    figure = PlacedFigure(as_data_uri(draw_by_task, info), f"Metrics of {words}", "Every method on every task")
    explanation = "Means over seeds on the target; the arrow beside a metric points to where better is."
    return FigureSection("by-task", "All tasks", explanation, ((figure,),), ())


def confusion_section(runs: Sequence[RunContents]) -> FigureSection:
    """A matrix for each run whose target has labels."""
    figures = []
    for run in runs:
        info = confusion_info(run.target)
        if info is not None:
            alternative = f"Confusion matrix of {run.name} on the target"
            caption = captioned(run, runs, "target, per cent of each true class")
            figures.append(PlacedFigure(as_data_uri(draw_confusion, info), alternative, caption))
    explanation = "Which classes are taken for which: a column that is dark away from the diagonal swallows others."
    return FigureSection("confusion", "Confusion", explanation, (tuple(figures),), ())


def mean_curves_section(curves: CellCurves) -> FigureSection | None:
    """The same for a comparison, one line per method; None if no cell has a curve."""
    if not curves:
        return None
    means = mean_curves(curves)
    notes = tuple(f"{method}: No seed has a curve for every task." for method, mean in means.items() if not mean)
    explanation = (
        "Metrics of the target after each epoch of training, means over tasks and seeds as far as the shortest "
        f"training goes, {_CURVES_ARE_OF}."
    )
    heading = "Learning curves of the methods"
    return FigureSection("learning-curves", heading, explanation, (_curve_figures(means),), notes)


def _curve_figures(curves: Mapping[str, Curve]) -> tuple[PlacedFigure, ...]:
    figures = []
    for info in learning_curve_info(curves):
        last = ", ".join(f"{line.run} {line.value[-1]:.3g}" for line in info.lines if len(line.value))
        alternative = f"{info.quantity} on the target by epoch; at the end: {last}"
        figures.append(PlacedFigure(as_data_uri(draw_history, info), alternative, info.quantity))
    return tuple(figures)


def history_section(runs: Sequence[RunContents]) -> FigureSection:
    """One figure per recorded quantity."""
    infos = history_info(runs)
    figures = tuple(
        PlacedFigure(as_data_uri(draw_history, info), f"{info.quantity} by epoch", info.quantity.replace("_", " "))
        for info in infos
    )
    notes = [(run.name, "No training history was recorded.") for run in runs if not run.history]
    explanation = "Each recorded quantity by epoch: curves that have become flat belong to a finished training."
    return FigureSection("history", "Training history", explanation, (figures,), notes_once(runs, notes))
