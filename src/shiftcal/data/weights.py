"""Weights of source rows: how often training draws each of them."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shiftcal.core.errors import InvalidInputError, UnknownNameError
from shiftcal.data.domains import Rows

Weights = NDArray[np.float64]


def row_weights(labels: Rows, classes: Sequence[Hashable], class_weight: Any, sample_weight: Any) -> Weights | None:
    """The product of both weights of each row (N,); None if there are neither.

    Args:
        labels: (N,) positions in `classes`.
        classes: the labels.
        class_weight: None; "balanced": N / (classes x rows of the class); or weights by label, 1 for all others.
        sample_weight: None, a number, or one for each row.

    Raises:
        InvalidInputError: weights that are negative, not finite, all 0, or not one for each row.
    """
    if class_weight is None and sample_weight is None:
        return None
    by_class = _class_weights(labels, classes, class_weight)
    by_row = _checked(1.0 if sample_weight is None else sample_weight, len(labels))
    weights = by_class[labels] * by_row
    if not weights.any():
        raise InvalidInputError("sample_weight and class_weight: expected a row of some weight, got zero for all")
    return np.asarray(weights)


def _class_weights(labels: Rows, classes: Sequence[Hashable], class_weight: Any) -> Weights:
    if class_weight is None:
        return np.ones(len(classes))
    if isinstance(class_weight, str) and class_weight == "balanced":
        counts = np.bincount(labels, minlength=len(classes))
        return np.asarray(len(labels) / (len(classes) * np.maximum(counts, 1)))
    if not isinstance(class_weight, Mapping):
        raise InvalidInputError(f"class_weight: expected None, 'balanced' or weights by label, got {class_weight!r}")
    unknown = next((label for label in class_weight if label not in classes), None)
    if unknown is not None:
        raise UnknownNameError("label of class_weight", unknown, map(str, classes))
    return _checked([class_weight.get(label, 1.0) for label in classes], len(classes), "class_weight")


def _checked(values: Any, count: int, name: str = "sample_weight") -> Weights:
    try:
        weights = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"{name}: expected numbers, got {values!r}") from error
    if weights.shape not in ((), (count,)):
        raise InvalidInputError(f"{name}: expected {count} numbers, one for each, got shape {weights.shape}")
    if not (np.isfinite(weights) & (weights >= 0)).all():
        raise InvalidInputError(f"{name}: expected finite numbers of at least 0, got {weights.min()}")
    return np.broadcast_to(weights, (count,))


def weighted_rows(weights: Weights, num_rows: int, generator: np.random.Generator) -> Rows:
    """As many row numbers as there are rows, each about as often as its weight says (systematic resampling).

    A row whose weight is w times the mean is there floor(w) or ceil(w) times, w times on average. Rows behind those
    that have weights, which are pseudo-labelled ones, weigh as the mean.
    """
    weights = np.concatenate([weights, np.full(num_rows - len(weights), weights.mean())])
    until = np.cumsum(weights)
    if until[-1] <= 0:
        raise InvalidInputError("the rows that are left for training all have a weight of 0; give more rows a weight")
    positions = (np.arange(num_rows) + generator.random()) * (until[-1] / num_rows)
    return np.asarray(np.searchsorted(until, positions, side="right").clip(max=num_rows - 1), dtype=np.int64)
