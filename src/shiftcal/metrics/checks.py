"""The one place where the inputs of every metric are checked.

Probabilities stay in the type in which they came, float32 or float64, and are looked at in blocks of rows that fit in
the processor's cache: a copy of all of them in float64 would take longer than the metric. What is summed is float64.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import torch

from shiftcal.core.errors import InvalidInputError

Array: TypeAlias = npt.NDArray[Any] | torch.Tensor
FloatArray: TypeAlias = npt.NDArray[np.float64]
IntArray: TypeAlias = npt.NDArray[np.int64]
BoolArray: TypeAlias = npt.NDArray[np.bool_]

ROW_SUM_TOLERANCE = 1e-3

# Numbers of a block: half a megabyte of float64.
_BLOCK_SIZE = 2**16
# Up to so many classes, the largest of each row is found faster class by class than row by row.
_FEW_CLASSES = 32


def row_blocks(num_rows: int, num_columns: int, *, fewest: int = 1) -> Iterator[slice]:
    """Cut rows of so many columns into blocks that fit in the processor's cache, of at least `fewest` rows."""
    length = max(_BLOCK_SIZE // num_columns, fewest)
    return (slice(start, start + length) for start in range(0, num_rows, length))


@dataclass(frozen=True, eq=False)
class CheckedPredictions:
    """Probabilities (N, C) and labels (N,) that passed the checks, and what every metric derives from them."""

    probabilities: npt.NDArray[np.floating[Any]]
    """In float32 or float64."""
    labels: IntArray

    @property
    def num_samples(self) -> int:
        """N."""
        return len(self.probabilities)

    @property
    def num_classes(self) -> int:
        """C."""
        return int(self.probabilities.shape[1])

    def blocks(self, fewest: int) -> Iterator[CheckedPredictions]:
        """The same samples in parts that fit in the processor's cache, of at least so many."""
        for rows in row_blocks(self.num_samples, self.num_classes, fewest=fewest):
            yield CheckedPredictions(self.probabilities[rows], self.labels[rows])

    @property
    def predicted(self) -> IntArray:
        """Most probable class of each sample (N,); the first one of equals."""
        return self._most_probable[0]

    @property
    def confidence(self) -> FloatArray:
        """Probability of the predicted class (N,)."""
        return self._most_probable[1]

    @cached_property
    def _most_probable(self) -> tuple[IntArray, FloatArray]:
        predicted, confidence = np.empty(self.num_samples, np.int64), np.empty(self.num_samples)
        for rows in row_blocks(*self.probabilities.shape):
            predicted[rows], confidence[rows] = _first_largest(self.probabilities[rows])
        return predicted, confidence

    @cached_property
    def correct(self) -> BoolArray:
        """Whether the predicted class is the label (N,)."""
        return np.equal(self.predicted, self.labels)

    def at_class(self, classes: IntArray) -> FloatArray:
        """Probability that each sample gives to its entry of `classes` (N,)."""
        chosen: FloatArray = np.take_along_axis(self.probabilities, classes[:, None], axis=1)[:, 0].astype(np.float64)
        return chosen


def check_predictions(probabilities: Array, labels: Array) -> CheckedPredictions:
    """Check probabilities (N, C) and labels (N,) and return them, the labels as int64.

    Raises:
        InvalidInputError: not floating-point (N, C) probabilities with rows that sum to 1 (tolerance 1e-3, or
            the rounding step of a coarser type such as bfloat16), not integer labels (N,) in [0, C), or empty.
    """
    checked = _check_probabilities(probabilities)
    num_samples, num_classes = checked.shape
    return CheckedPredictions(checked, _check_labels(labels, num_samples, num_classes))


def check_num_bins(num_bins: int, name: str = "num_bins") -> int:
    """Return `num_bins` if it is an integer of at least 1.

    Raises:
        InvalidInputError: it is not.
    """
    try:
        checked = 0 if isinstance(num_bins, bool) else operator.index(num_bins)
    except TypeError:
        checked = 0
    if checked < 1:
        raise InvalidInputError(f"{name} must be an integer of at least 1. Got {num_bins!r} instead.")
    return checked


def check_scores(scores: Array, num_samples: int) -> FloatArray:
    """Return trust scores (N,), any real numbers and higher for more trusted samples, in float64.

    Raises:
        InvalidInputError: another shape, not real numbers, or NaN.
    """
    array, _ = _to_numpy(scores, "scores")
    if array.dtype.kind not in "fiu":
        raise InvalidInputError(f"scores must be real numbers. Got dtype {array.dtype} instead.")
    if array.shape != (num_samples,):
        raise InvalidInputError(
            f"scores must have shape ({num_samples},), one per sample. Got shape {array.shape} instead."
        )
    if np.isnan(array).any():
        raise InvalidInputError(
            f"scores must not be NaN. Got NaN at sample {int(np.isnan(array).argmax())}: "
            "a sample without a score can't be ranked; leave it out or give it -inf."
        )
    return array.astype(np.float64, copy=False)


def _to_numpy(values: Array, name: str) -> tuple[npt.NDArray[Any], float]:
    """Return `values` as a NumPy array, and the rounding step of the type they came in (0 for non-floats)."""
    try:
        if not isinstance(values, torch.Tensor):
            array = np.asarray(values)
            return array, float(np.finfo(array.dtype).eps) if array.dtype.kind == "f" else 0.0
        tensor = values.detach().cpu()
        if not tensor.is_floating_point():
            return tensor.numpy(), 0.0
        # NumPy has no bfloat16, and is slow with float16: float32 holds both exactly.
        wide = tensor if tensor.dtype == torch.float64 else tensor.to(torch.float32)
        return wide.numpy(), torch.finfo(values.dtype).eps
    except (TypeError, ValueError, RuntimeError) as error:
        raise InvalidInputError(
            f"{name} must be a NumPy array or a torch tensor. Got {type(values).__name__} instead, "
            f"which can't be converted: {error}"
        ) from error


def _check_probabilities(probabilities: Array) -> npt.NDArray[np.floating[Any]]:
    array, rounding_step = _to_numpy(probabilities, "probabilities")
    if array.ndim != 2:
        raise InvalidInputError(
            f"probabilities must have shape (N, C), one row per sample. Got shape {array.shape} instead. "
            "For a single probability p of class 1, give two columns: np.stack([1 - p, p], axis=1)."
        )
    if array.size == 0:
        raise InvalidInputError(
            f"probabilities must hold at least one sample and one class. Got shape {array.shape} instead."
        )
    if array.dtype.kind != "f":
        raise InvalidInputError(
            f"probabilities must be floating-point. Got dtype {array.dtype} instead: "
            "give the classifier's probabilities, not its class indices."
        )
    if array.dtype not in (np.float32, np.float64):
        array = array.astype(np.float64)
    _check_values(array, max(ROW_SUM_TOLERANCE, rounding_step))
    return array


def _check_values(probabilities: npt.NDArray[np.floating[Any]], tolerance: float) -> None:
    ones = np.ones(probabilities.shape[1], probabilities.dtype)
    first_wrong, num_wrong = 0, 0
    for rows in row_blocks(*probabilities.shape):
        block = probabilities[rows]
        # The minimum is NaN if any entry is.
        if not block.min() >= 0:
            raise _out_of_range(block, rows.start)
        with np.errstate(over="ignore"):  # huge logits sum to inf, which is reported like any other wrong sum
            wrong = np.abs(block @ ones - 1) > tolerance
        if wrong.any():
            first_wrong = first_wrong if num_wrong else rows.start + int(wrong.argmax())
            num_wrong += int(wrong.sum())
    if num_wrong:
        with np.errstate(over="ignore"):
            total = float(probabilities[first_wrong].sum(dtype=np.float64))
        raise InvalidInputError(
            f"each row of probabilities must sum to 1 (tolerance {tolerance:g}). Got {total!r} at "
            f"sample {first_wrong} ({num_wrong} such rows of {len(probabilities)}). If these are logits, apply "
            "softmax first; if these are independent sigmoids, normalise each row."
        )


def _out_of_range(block: npt.NDArray[np.floating[Any]], first_row: int) -> InvalidInputError:
    row, column = np.argwhere(~(block >= 0))[0]
    value = float(block[row, column])
    fix = (
        "look for a division by zero or an overflow before the softmax."
        if np.isnan(value)
        else "these may be logits; apply softmax first."
    )
    return InvalidInputError(
        f"probabilities must be numbers of at least 0. Got {value!r} at sample {first_row + row}, class {column}: "
        f"{fix}"
    )


def _check_labels(labels: Array, num_samples: int, num_classes: int) -> IntArray:
    array, _ = _to_numpy(labels, "labels")
    if array.shape != (num_samples,):
        hint = " For one-hot labels, use labels.argmax(1)." if array.shape == (num_samples, num_classes) else ""
        raise InvalidInputError(
            f"labels must have shape ({num_samples},), one class index per row of probabilities. "
            f"Got shape {array.shape} instead.{hint}"
        )
    if array.dtype.kind not in "iu":
        raise InvalidInputError(
            f"labels must be integer class indices. Got dtype {array.dtype} instead: "
            "convert with labels.astype(int) (NumPy) or labels.long() (torch)."
        )
    # Compared as Python integers: unsigned types would wrap if they were cast first.
    lowest, highest = int(array.min()), int(array.max())
    if lowest < 0 or highest >= num_classes:
        raise InvalidInputError(
            f"labels must lie in [0, {num_classes}), the columns of probabilities. Got values from {lowest} to "
            f"{highest}: remove unlabelled samples, or number the classes from 0."
        )
    return array.astype(np.int64, copy=False)


def _first_largest(block: npt.NDArray[np.floating[Any]]) -> tuple[IntArray, npt.NDArray[np.floating[Any]]]:
    """Column and value of the largest number of each row (N, C), the first one of equals."""
    if block.shape[1] > _FEW_CLASSES:
        column = block.argmax(axis=1)
        return column, np.take_along_axis(block, column[:, None], axis=1)[:, 0]
    columns = np.ascontiguousarray(block.T)
    largest = columns.max(axis=0)
    # Classes count down, so that the first of equals has the largest number; in bytes, of which processors take many
    # at once.
    rank = np.zeros(len(block), np.uint8)
    for number, values in enumerate(columns):
        np.maximum(rank, (values == largest).view(np.uint8) * np.uint8(len(columns) - number), out=rank)
    return len(columns) - rank.astype(np.int64), largest
