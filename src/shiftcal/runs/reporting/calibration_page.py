"""Pages on what to expect on a target: in words, in numbers, and in pictures where a model was calibrated to it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shiftcal.core.files import written_whole
from shiftcal.runs.predictions import Predictions
from shiftcal.runs.reporting.environment import page_environment
from shiftcal.runs.reporting.figure_sections import PlacedFigure
from shiftcal.runs.reporting.figures.calibration import (
    calibrated_confidence_info,
    draw_calibrated_confidence,
    draw_reliability,
    reliability_info,
)
from shiftcal.runs.reporting.figures.drawing import as_data_uri
from shiftcal.target.performance import Estimate, Expected

_KINDS = {
    "none": "None that shows: what the model says looks as on the source.",
    "prior": "Other classes are frequent; beside that, all looks as on the source.",
    "part": "A part of the rows is new; the rest is as on the source.",
    "covariate": "The inputs have changed, within what the source has.",
    "new classes": "Some rows seem to be of classes that the source does not have; predictions of them are wrong.",
    "outside": "Inputs lie outside of what the source has. Look at them first: no estimate can be relied on there.",
}
_METRIC_NAMES = {
    "accuracy": "Accuracy",
    "balanced_accuracy": "Balanced accuracy",
    "macro_f1": "Macro F1",
    "brier_score": "Brier score",
    "negative_log_likelihood": "Log loss",
    "auroc": "AUROC",
    "average_precision": "Average precision",
}


@dataclass(frozen=True)
class CalibrationContents:
    """What the page shows."""

    verdict: str
    estimate: Estimate
    """Of the target."""
    set_coverage: Expected
    """Of sets of labels that were asked for 90 %."""
    source: Predictions
    """With labels, as the model gives them."""
    given: NDArray[np.float64]
    """(K, C) of some of the target's rows, as the model gives them."""
    calibrated: NDArray[np.float64]
    """(K, C) of the same rows."""


class ClassShare(NamedTuple):
    """How frequent a class is on the target."""

    name: str
    predicted: str
    expected: str


def write_calibration_page(contents: CalibrationContents, path: Path, title: str) -> None:
    """Write a self-contained page.

    Raises:
        OutputError: it can't be written.
    """
    _write_page(path, title, contents.verdict, contents.estimate, _sentences(contents), _figures(contents))


def write_estimate_page(estimate: Estimate, path: Path, title: str) -> None:
    """The same of an estimate alone.

    Raises:
        OutputError: it can't be written.
    """
    _write_page(path, title, estimate.verdict, estimate, _expectations(estimate), [])


def _write_page(
    path: Path,
    title: str,
    verdict: str,
    estimate: Estimate,
    sentences: list[tuple[str, str]],
    figures: list[PlacedFigure],
) -> None:
    checks = estimate.diagnosis.inputs
    page = (
        page_environment()
        .get_template("estimate.html.j2")
        .render(
            title=title,
            verdict=verdict,
            sentences=sentences,
            odd_inputs=[] if checks is None else [found.words for found in checks.findings],
            metrics=[(_METRIC_NAMES[name], metric) for name, metric in estimate.metrics.items()],
            figures=figures,
            classes=_class_shares(estimate),
        )
    )
    with written_whole(path) as temporary:
        temporary.write_text(page, encoding="utf-8")


def _expectations(estimate: Estimate) -> list[tuple[str, str]]:
    """What a reader in a hurry takes away, most important first."""
    accuracy = f"{estimate.accuracy:.1%} of predictions are right"
    if estimate.interval is not None:
        accuracy += " (nine times out of ten between {:.1%} and {:.1%})".format(*estimate.interval)
    if estimate.kind_of_shift == "outside":
        accuracy = f"Not to be relied on: {accuracy}"
    new = estimate.diagnosis.new_classes
    seen = [] if new is None else [("Rows of new classes", f"About {new.share:.0%}; {new.seen_share:.0%} are seen.")]
    return [
        ("Expected on the target", f"{accuracy}."),
        ("What has changed", _KINDS[estimate.kind_of_shift]),
        ("Rows that have shifted", f"About {estimate.shifted_share:.0%} of {estimate.num_rows:,}."),
        *seen,
    ]


def _sentences(contents: CalibrationContents) -> list[tuple[str, str]]:
    """The same, and what the model itself says."""
    held = contents.set_coverage
    before, after = (float(values.max(axis=1).mean()) for values in (contents.given, contents.calibrated))
    right = float((contents.source.predicted == contents.source.labels).mean())
    sets = f"A set of labels asked to hold the true one 90 % of the time is expected to do so {held.value:.0%}"
    if held.low is not None and held.high is not None:
        sets += f" ({held.low:.0%} to {held.high:.0%})"
    (name, accuracy), *others = _expectations(contents.estimate)
    return [
        (name, f"{accuracy} On the labelled source rows it is {right:.1%}."),
        *others,
        ("What the model says", f"It claims {before:.1%} on average; calibrated, it claims {after:.1%}."),
        ("Sets of labels", f"{sets}."),
    ]


def _figures(contents: CalibrationContents) -> list[PlacedFigure]:
    confidence = calibrated_confidence_info(contents.given, contents.calibrated, contents.estimate.accuracy)
    reliability = reliability_info(contents.source, "source")
    assert reliability is not None
    return [
        PlacedFigure(
            as_data_uri(draw_calibrated_confidence, confidence),
            f"Histogram of confidence on the target: mean {confidence.given_mean:.2f} as given, "
            f"{confidence.calibrated_mean:.2f} calibrated",
            "Confidence on the target, before and after",
        ),
        PlacedFigure(
            as_data_uri(draw_reliability, reliability),
            f"Reliability diagram on the source, ECE {reliability.calibration_error:.3f}",
            f"Source rows with labels, as given: ECE {reliability.calibration_error:.3f}",
        ),
    ]


def _class_shares(estimate: Estimate) -> list[ClassShare]:
    """Rows and columns of the expected confusion matrix, the most frequent classes first."""
    confusion = np.array(estimate.confusion)
    expected, predicted = confusion.sum(axis=1), confusion.sum(axis=0)
    return [
        ClassShare(str(estimate.classes[number]), f"{predicted[number]:.1%}", f"{expected[number]:.1%}")
        for number in np.argsort(-expected, kind="stable")
    ]
