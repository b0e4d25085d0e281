"""The scalar metrics by name, and all of them at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from shiftcal.metrics.binning import confidence_bins, confidence_ties
from shiftcal.metrics.calibration import (
    adaptive_calibration_error,
    calibration_gap,
    classwise_bins,
    classwise_calibration_error,
    classwise_gap,
    equal_mass_gap,
    expected_calibration_error,
)
from shiftcal.metrics.checks import Array, CheckedPredictions, check_predictions
from shiftcal.metrics.correctness import (
    accuracy,
    class_totals,
    mean_class_accuracy,
    mean_per_class_accuracy,
    overall_accuracy,
)
from shiftcal.metrics.proper_scores import (
    brier_score,
    brier_totals,
    log_likelihood_totals,
    mean_from_totals,
    negative_log_likelihood,
)
from shiftcal.metrics.selective import (
    area_under_risk_coverage,
    auroc_from_groups,
    error_detection_auroc,
    risk_coverage_from_groups,
)


class MetricInfo(NamedTuple):
    """A scalar metric: its function, its direction and a line that says what it is."""

    function: Callable[[Array, Array], float]
    higher_is_better: bool | None
    doc: str
    evaluate: Callable[[CheckedPredictions], float]
    """The same as `function`, for inputs that are checked already."""


METRICS: dict[str, MetricInfo] = {
    "accuracy": MetricInfo(
        accuracy,
        True,
        "Fraction of samples whose most probable class is the label.",
        lambda predictions: overall_accuracy(class_totals(predictions)),
    ),
    "mean_per_class_accuracy": MetricInfo(
        mean_per_class_accuracy,
        True,
        "Mean of the accuracies of the classes that occur among the labels.",
        lambda predictions: mean_class_accuracy(class_totals(predictions)),
    ),
    "expected_calibration_error": MetricInfo(
        expected_calibration_error,
        False,
        "Mean gap between confidence and accuracy over 15 equal-width bins.",
        lambda predictions: calibration_gap(confidence_bins(predictions)),
    ),
    "adaptive_calibration_error": MetricInfo(
        adaptive_calibration_error,
        False,
        "Mean gap between confidence and accuracy over 15 equal-mass bins.",
        lambda predictions: equal_mass_gap(confidence_ties(predictions)),
    ),
    "classwise_calibration_error": MetricInfo(
        classwise_calibration_error,
        False,
        "Mean over classes of the one-vs-rest calibration error over 15 equal-width bins.",
        lambda predictions: classwise_gap(classwise_bins(predictions)),
    ),
    "brier_score": MetricInfo(
        brier_score,
        False,
        "Squared distance between probabilities and one-hot label, summed over classes.",
        lambda predictions: mean_from_totals(brier_totals(predictions)),
    ),
    "negative_log_likelihood": MetricInfo(
        negative_log_likelihood,
        False,
        "Negative logarithm of the probability given to the label, in nats.",
        lambda predictions: mean_from_totals(log_likelihood_totals(predictions)),
    ),
    "error_detection_auroc": MetricInfo(
        error_detection_auroc,
        True,
        "Probability that a right answer has a higher confidence than a wrong one.",
        lambda predictions: auroc_from_groups(confidence_ties(predictions)),
    ),
    "area_under_risk_coverage": MetricInfo(
        area_under_risk_coverage,
        False,
        "Mean error rate over all coverages, the most confident samples first.",
        lambda predictions: risk_coverage_from_groups(confidence_ties(predictions)).area,
    ),
}


def compute_metrics(probabilities: Array, labels: Array) -> dict[str, float]:
    """Return every metric of `METRICS` by name, with the inputs checked once.

    Each value is that of the function of the same name with its default arguments.

    Shapes: probabilities (N, C), labels (N,). References: see each function.

    Raises:
        InvalidInputError: see `shiftcal.metrics.checks.check_predictions`.

    Example:
        >>> import numpy as np
        >>> values = compute_metrics(np.array([[0.9, 0.1], [0.6, 0.4]]), np.array([0, 1]))
        >>> values["accuracy"], round(values["brier_score"], 6), values["error_detection_auroc"]
        (0.5, 0.37, 1.0)
    """
    predictions = check_predictions(probabilities, labels)
    return {name: info.evaluate(predictions) for name, info in METRICS.items()}
