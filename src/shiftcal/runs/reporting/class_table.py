"""What a model does class by class."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shiftcal.metrics import per_class_accuracy
from shiftcal.runs.predictions import Predictions


class ClassRow(NamedTuple):
    """One class in one domain; None where a number does not exist."""

    num_inputs: int | None
    """Inputs of this class; None without labels."""
    num_predicted: int
    accuracy: float | None
    confidence: float | None
    density_ratio: float | None


def class_rows(predictions: Predictions) -> tuple[ClassRow, ...]:
    """One row per class; means are over the inputs of a class or, without labels, over those predicted as it."""
    labels, num_classes = predictions.labels, len(predictions.classes)
    predicted_count = np.bincount(predictions.predicted, minlength=num_classes)
    groups = predictions.predicted if labels is None else labels
    size = np.bincount(groups, minlength=num_classes)
    counts = [None] * num_classes if labels is None else size.tolist()
    columns = (
        counts,
        predicted_count.tolist(),
        _accuracies(predictions),
        _group_means(predictions.confidence, groups, size),
        _group_means(predictions.density_ratio, groups, size),
    )
    return tuple(ClassRow(*values) for values in zip(*columns, strict=True))


def _accuracies(predictions: Predictions) -> list[float | None]:
    if predictions.labels is None:
        return [None] * len(predictions.classes)
    values = per_class_accuracy(predictions.probabilities, predictions.labels)
    return [None if np.isnan(value) else float(value) for value in values]


def _group_means(
    values: NDArray[np.float64], groups: NDArray[np.int64], size: NDArray[np.int64]
) -> list[float | None]:
    sums = np.bincount(groups, weights=values, minlength=len(size))
    return [float(total / count) if count else None for total, count in zip(sums, size, strict=True)]
