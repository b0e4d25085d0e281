"""Columns of frames and matrices as a monitor wants them: floats with NaN, or strings with None."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from shiftcal.core.errors import InvalidInputError
from shiftcal.data.frames import as_frame, is_frame
from shiftcal.target.drift import Column


class WatchedColumns:
    """Names and kinds of the columns of a reference, and how to get the same from batches.

    Args:
        reference: a frame, or a matrix of numbers.
        names: of the columns; None: all that are neither dates nor the same in no two rows, as identities are.
    """

    def __init__(self, reference: Any, names: Sequence[str] | None = None) -> None:
        if is_frame(reference):
            reference = as_frame(reference, "reference")
            _check_columns(reference, names or ())
            chosen = names or [name for name in reference.columns if _tells_something(reference[name])]
            self._is_number = {name: _is_number(reference[name]) for name in chosen}
        else:
            self._is_number = {f"column {number}": True for number in range(np.shape(reference)[1])}

    @property
    def names(self) -> tuple[str, ...]:
        """Of the columns."""
        return tuple(self._is_number)

    def of(self, inputs: Any) -> dict[str, Column]:
        """The columns of a batch.

        Raises:
            InvalidInputError: a column is missing, or holds something else than on the reference.
        """
        if is_frame(inputs):
            inputs = as_frame(inputs, "batch")
            _check_columns(inputs, self.names)
            return {name: _converted(inputs[name], name, number) for name, number in self._is_number.items()}
        if np.ndim(inputs) != 2 or np.shape(inputs)[1] != len(self._is_number):
            raise InvalidInputError(
                f"batch: expected the {len(self._is_number)} columns of the reference, got shape {np.shape(inputs)}"
            )
        try:
            values = np.asarray(inputs, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise InvalidInputError(
                f"expected a matrix of numbers: {error}; give a frame for columns of other kinds"
            ) from None
        return {name: values[:, number] for number, name in enumerate(self._is_number)}


def _check_columns(frame: Any, names: Sequence[str]) -> None:
    missing = [name for name in names if name not in frame.columns]
    if missing:
        raise InvalidInputError(
            f"expected columns {', '.join(map(repr, missing))}, and there are {', '.join(map(str, frame.columns))}"
        )


def _tells_something(series: Any) -> bool:
    """Dates and identities differ from the reference by what they are."""
    if series.dtype.kind in "mM":
        return False
    return bool(series.dtype.kind == "f" or series.nunique() < len(series))


def _is_number(series: Any) -> bool:
    return series.dtype.kind in "iuf" or str(series.dtype).lower().startswith(("int", "uint", "float"))


def _converted(series: Any, name: str, is_number: bool) -> Column:
    if not is_number:
        texts = series.astype(object).map(str).to_numpy(dtype=object)
        return np.asarray(np.where(series.isna(), None, texts))
    try:
        return np.asarray(series.to_numpy(dtype=np.float64, na_value=np.nan))
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"column {name!r}: expected numbers as in the reference: {error}") from None


def with_outputs(columns: Mapping[str, Column], probabilities: np.ndarray, classes: np.ndarray) -> dict[str, Column]:
    """The same and what the model says: columns like others, whose drift shows what it makes of theirs."""
    names = np.array([str(label) for label in classes], dtype=object)
    said = {"predicted class": names[probabilities.argmax(axis=1)], "confidence": probabilities.max(axis=1)}
    return {**columns, **said}
