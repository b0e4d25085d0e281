"""The finding of a report in one sentence of plain words."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from shiftcal.metrics import accuracy, expected_calibration_error
from shiftcal.runs.reporting.contents import RunContents
from shiftcal.runs.reporting.tables import ALL_TASKS, ComparisonTable

# Below this difference, in percentage points, a model's confidence is called right.
TOLERANCE = 1.0


def headline(runs: Sequence[RunContents], table: ComparisonTable | None = None) -> str:
    """One sentence for the whole report: what the run found, or which of several did best.

    Of a comparison that is what its table says over all tasks and seeds, not what the runs shown in detail do.
    """
    if table is not None:
        return comparison_sentence(table)
    if len(runs) == 1:
        return run_sentence(runs[0])
    accuracies, errors = {}, {}
    for run in runs:
        if run.target.labels is not None:
            accuracies[run.name] = accuracy(run.target.probabilities, run.target.labels)
            errors[run.name] = expected_calibration_error(run.target.probabilities, run.target.labels)
    if not accuracies:
        return f"{len(runs)} runs, without target labels that would tell which one is right."
    best, calibrated = max(accuracies, key=accuracies.__getitem__), min(errors, key=errors.__getitem__)
    first = f"Of {len(runs)} runs, {best} is right most often on the target ({_percent(accuracies[best])})"
    second = f"lowest calibration error ({errors[calibrated]:.3f})"
    return (
        f"{first} and also has the {second}."
        if best == calibrated
        else f"{first}, and {calibrated} has the {second}."
    )


def comparison_sentence(table: ComparisonTable) -> str:
    """Which methods are best over all tasks and seeds, by the first block of the table."""
    over = "over all tasks and seeds" if table.blocks[0].task == ALL_TASKS else "over all seeds"
    parts = []
    for column, words in (("accuracy", "most often right"), ("expected_calibration_error", "best calibrated")):
        best = _best(table, column)
        if best:
            parts.append(f"{' and '.join(best)} {'is' if len(best) == 1 else 'are'} {words}")
    if not parts:
        return f"{len(table.methods)} methods on {len(table.blocks)} tasks."
    return f"On the target, {over}, {', and '.join(parts)}."


def _best(table: ComparisonTable, column: str) -> list[str]:
    """Methods with the best mean of a metric; none where nothing can be compared."""
    number = next((number for number, metric in enumerate(table.metrics) if metric.column == column), None)
    if number is None:
        return []
    entries = (row[number] for row in table.blocks[0].rows)
    return [method for method, entry in zip(table.methods, entries, strict=True) if entry and entry.best]


def run_sentence(run: RunContents) -> str:
    """What the run says of the target, against the truth where labels exist."""
    says = float(run.target.confidence.mean())
    if run.target.labels is None:
        return (
            f"On the target the model expects to be right {_percent(says)} of the time; "
            f"no labels were given that could confirm it. {_ratio_summary(run)}"
        )
    right = accuracy(run.target.probabilities, run.target.labels)
    return (
        f"On the target the model is right {_percent(right)} of the time and says {_percent(says)}: "
        f"{_verdict(round(100 * says, 1) - round(100 * right, 1))}."
    )


def _verdict(excess: float) -> str:
    # From the rounded percentages, so that the sentence adds up.
    if abs(excess) < TOLERANCE:
        return "on average its confidence is right"
    direction = "over-confident" if excess > 0 else "under-confident"
    return f"it is {direction} by {abs(excess):.1f} points"


def _ratio_summary(run: RunContents) -> str:
    if not run.models_shift:
        return "No shift is modelled."
    ratio = run.target.density_ratio
    low, median, high = np.quantile(ratio, (0.05, 0.5, 0.95))
    return (
        f"Its target inputs have a median density ratio of {median:.2f} "
        f"(nine in ten between {low:.2f} and {high:.2f}); "
        f"{_percent(float((ratio < 1).mean()))} look more like the target than like the source."
    )


def _percent(share: float) -> str:
    # A no-break space, so that the sign is never alone on a line.
    return f"{100 * share:.1f}\N{NO-BREAK SPACE}%"
