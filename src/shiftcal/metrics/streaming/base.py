"""What every streaming metric shares: one additive array of totals, of fixed size."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Generic, Self, TypeVar

import numpy as np

from shiftcal.core.errors import InvalidInputError
from shiftcal.metrics.checks import Array, CheckedPredictions, FloatArray, check_predictions

Result = TypeVar("Result")


class StreamingMetric(ABC, Generic[Result]):
    """A metric whose totals are summed over batches and shards.

    A subclass says how the totals of a batch are made and how the result follows from them, with the very
    functions that the plain metric of the same name uses.
    """

    def __init__(self) -> None:
        self._num_classes: int | None = None
        self._totals: FloatArray = np.zeros(0)
        self._rounding: FloatArray = np.zeros(0)

    def update(self, probabilities: Array, labels: Array) -> Self:
        """Add a batch: probabilities (N, C) and labels (N,), with the same C in every batch.

        Raises:
            InvalidInputError: see `shiftcal.metrics.checks.check_predictions`; or another C. Nothing was added.
        """
        predictions = check_predictions(probabilities, labels)
        self._check_num_classes(predictions.num_classes)
        totals = self._batch_totals(predictions)
        self._add(predictions.num_classes, totals, np.zeros_like(totals))
        return self

    def merge(self, other: Self) -> Self:
        """Add all that `other` has seen, as if this metric had seen it; `other` stays as it is.

        Raises:
            InvalidInputError: another kind of metric, other settings, or another number of classes.
        """
        if type(other) is not type(self):
            raise InvalidInputError(f"merge needs another {type(self).__name__}. Got {type(other).__name__} instead.")
        if other._settings() != self._settings():
            raise InvalidInputError(
                f"merge needs a {type(self).__name__} with the same settings {self._settings()!r}. "
                f"Got {other._settings()!r} instead: create every shard's metric with the same arguments."
            )
        if other._num_classes is not None:
            self._check_num_classes(other._num_classes)
            self._add(other._num_classes, other._totals, other._rounding)
        return self

    def compute(self) -> Result:
        """Return the metric of all samples so far; more may follow.

        Raises:
            InvalidInputError: there are none.
        """
        return self._result(self._sums())

    @abstractmethod
    def _batch_totals(self, predictions: CheckedPredictions) -> FloatArray:
        """Return the totals of a batch, of a shape that depends on the settings and on C alone."""

    @abstractmethod
    def _result(self, totals: FloatArray) -> Result:
        """Return the metric from the summed totals."""

    def _settings(self) -> dict[str, int]:
        """Return the arguments that two metrics must share to be merged."""
        return {}

    def _sums(self) -> FloatArray:
        if self._num_classes is None:
            raise InvalidInputError(
                f"{type(self).__name__} has seen no samples. "
                "Call update(probabilities, labels) before computing a result."
            )
        return self._totals + self._rounding

    def _check_num_classes(self, num_classes: int) -> None:
        if self._num_classes not in (None, num_classes):
            raise InvalidInputError(
                f"{type(self).__name__} has seen {self._num_classes} classes so far and needs the same number "
                f"again. Got {num_classes} instead: give every batch and shard one column per class."
            )

    def _add(self, num_classes: int, totals: FloatArray, rounding: FloatArray) -> None:
        """Add with Neumaier's compensation, so that the number of updates does not cost digits."""
        old = np.zeros_like(totals) if self._num_classes is None else self._totals
        new = old + totals
        lost = np.where(np.abs(old) >= np.abs(totals), (old - new) + totals, (totals - new) + old)
        carried = np.zeros_like(totals) if self._num_classes is None else self._rounding
        self._totals, self._rounding = new, carried + lost + rounding
        self._num_classes = num_classes
