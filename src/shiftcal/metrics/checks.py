"""The one place where the inputs of every metric are checked and brought to float64."""

from __future__ import annotations

import operator
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


@dataclass(frozen=True, eq=False)
class CheckedPredictions:
    """Probabilities (N, C) and labels (N,) that passed the checks, and what every metric derives from them."""

    probabilities: FloatArray
    labels: IntArray

    @property
    def num_samples(self) -> int:
        """N."""
        return len(self.probabilities)

    @property
    def num_classes(self) -> int:
        """C."""
        return int(self.probabilities.shape[1])

    @cached_property
    def predicted(self) -> IntArray:
        """Most probable class of each sample (N,); the first one of equals."""
        return np.asarray(self.probabilities.argmax(axis=1), dtype=np.int64)

    @cached_property
    def confidence(self) -> FloatArray:
        """Probability of the predicted class (N,)."""
        return self.at_class(self.predicted)

    @cached_property
    def correct(self) -> BoolArray:
        """Whether the predicted class is the label (N,)."""
        return np.equal(self.predicted, self.labels)

    def at_class(self, classes: IntArray) -> FloatArray:
        """Probability that each sample gives to its entry of `classes` (N,)."""
        return np.take_along_axis(self.probabilities, classes[:, None], axis=1)[:, 0]


def check_predictions(probabilities: Array, labels: Array) -> CheckedPredictions:
    """Check probabilities (N, C) and labels (N,) and return them in float64 and int64.

    Raises:
        InvalidInputError: not floating-point (N, C) probabilities with rows that sum to 1 (tolerance 1e-3, or
            the rounding step of a coarser type such as bfloat16), not integer labels (N,) in [0, C), or empty.
    """
    checked = _check_probabilities(probabilities)
    return CheckedPredictions(checked, _check_labels(labels, *checked.shape))


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
        # NumPy has no bfloat16, so torch widens; after .cpu(), since not every device has float64.
        return tensor.to(torch.float64).numpy(), torch.finfo(values.dtype).eps
    except (TypeError, ValueError, RuntimeError) as error:
        raise InvalidInputError(
            f"{name} must be a NumPy array or a torch tensor. Got {type(values).__name__} instead, "
            f"which can't be converted: {error}"
        ) from error


def _check_probabilities(probabilities: Array) -> FloatArray:
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
    array = array.astype(np.float64, copy=False)
    _check_range(array)
    _check_row_sums(array, max(ROW_SUM_TOLERANCE, rounding_step))
    return array


def _check_range(probabilities: FloatArray) -> None:
    # The minimum is NaN if any entry is, and takes no second array of this size.
    if probabilities.min() >= 0:
        return
    row, column = np.argwhere(~(probabilities >= 0))[0]
    value = float(probabilities[row, column])
    fix = (
        "look for a division by zero or an overflow before the softmax."
        if np.isnan(value)
        else "these may be logits; apply softmax first."
    )
    raise InvalidInputError(
        f"probabilities must be numbers of at least 0. Got {value!r} at sample {row}, class {column}: {fix}"
    )


def _check_row_sums(probabilities: FloatArray, tolerance: float) -> None:
    with np.errstate(over="ignore"):  # huge logits sum to inf, which is reported like any other wrong sum
        sums = probabilities.sum(axis=1)
    wrong = np.abs(sums - 1) > tolerance
    if wrong.any():
        row = int(wrong.argmax())
        raise InvalidInputError(
            f"each row of probabilities must sum to 1 (tolerance {tolerance:g}). Got {float(sums[row])!r} at "
            f"sample {row} ({int(wrong.sum())} such rows of {len(sums)}). If these are logits, apply softmax "
            "first; if these are independent sigmoids, normalise each row."
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
