"""Tables of one run in the report: its card, its classes, its most telling rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from shiftcal.metrics import per_class_accuracy
from shiftcal.runs.predictions import Predictions


class CardGroup(NamedTuple):
    """The values below one top-level key; the heading of the loose values at the top is empty."""

    heading: str
    lines: tuple[tuple[str, str], ...]


def card_groups(card: Mapping[str, Any]) -> tuple[CardGroup, ...]:
    """Nested values as dotted keys, one group per top-level mapping, loose values first."""
    loose = tuple((str(key), written_value(value)) for key, value in card.items() if not isinstance(value, Mapping))
    groups = [CardGroup("", loose)] if loose else []
    for key, value in card.items():
        if isinstance(value, Mapping) and value:
            groups.append(CardGroup(str(key), tuple(_flattened(value))))
    return tuple(groups)


def _flattened(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    for key, value in values.items():
        if isinstance(value, Mapping) and value:
            yield from _flattened(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", written_value(value)


def written_value(value: object) -> str:
    """A plain value as a reader would write it."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, Mapping):
        return ", ".join(f"{key}: {written_value(inner)}" for key, inner in value.items()) or "none"
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        parts = [written_value(item) for item in value]
        # Sentences stand on lines of their own.
        separator = "\n" if any(len(part) > 20 for part in parts) else ", "
        return separator.join(parts) or "none"
    return str(value)


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


class ShownRow(NamedTuple):
    """An input and what the model says of it."""

    identity: str
    predicted: str
    truth: str | None
    """None without labels."""
    confidence: float
    density_ratio: float


class RowTables(NamedTuple):
    """Of one run, on the target."""

    surest_wrong: tuple[ShownRow, ...]
    """Empty without labels, or where all are right."""
    most_shifted: tuple[ShownRow, ...]
    """Empty where no shift is modelled."""


def row_tables(predictions: Predictions, *, models_shift: bool, count: int = 10) -> RowTables | None:
    """The first `count` rows of each kind; None where there are none of either."""
    wrong: Sequence[int] = ()
    if predictions.labels is not None:
        candidates = np.flatnonzero(predictions.predicted != predictions.labels)
        wrong = candidates[_order(-predictions.confidence[candidates])][:count].tolist()
    shifted = _order(predictions.density_ratio)[:count].tolist() if models_shift else ()
    tables = RowTables(*(tuple(_shown(predictions, row) for row in rows) for rows in (wrong, shifted)))
    return tables if any(tables) else None


def _order(values: NDArray[np.float64]) -> NDArray[np.int64]:
    # Stable: the same rows on every machine where many are alike.
    return np.argsort(values, kind="stable")


def _shown(predictions: Predictions, row: int) -> ShownRow:
    labels, classes = predictions.labels, predictions.classes
    return ShownRow(
        str(predictions.ids[row]),
        str(classes[predictions.predicted[row]]),
        None if labels is None else str(classes[labels[row]]),
        float(predictions.confidence[row]),
        float(predictions.density_ratio[row]),
    )
