"""Single rows that deserve a look: the surest of those that are wrong, and the least source-like ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shiftcal.runs.predictions import Predictions


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
