"""The one place where features and seeds are checked."""

from __future__ import annotations

import operator

import numpy as np
import torch

from shiftcal.core.errors import InvalidInputError
from shiftcal.metrics.checks import Array, FloatArray

MIN_ROWS = 10


def check_domains(source: Array, target: Array) -> tuple[FloatArray, FloatArray]:
    """Features of both domains in float64, with the same number of columns and enough rows to learn from.

    Raises:
        InvalidInputError: they are not.
    """
    checked = check_features(source, "source_features"), check_features(target, "target_features")
    widths = [features.shape[1] for features in checked]
    if widths[0] != widths[1]:
        raise InvalidInputError(
            f"source_features and target_features must have the same number of columns. Got {widths[0]} and "
            f"{widths[1]} instead: take both from the same layer of the same model."
        )
    for name, features in zip(("source_features", "target_features"), checked, strict=True):
        if len(features) < MIN_ROWS:
            raise InvalidInputError(
                f"{name} must have at least {MIN_ROWS} rows for a density to be learnt. Got {len(features)} instead."
            )
    return checked


def check_features(features: Array, name: str, num_features: int | None = None) -> FloatArray:
    """Features (K, F), NumPy or torch, in float64; `num_features` is F where it is known.

    Raises:
        InvalidInputError: another shape, no rows or columns, not real numbers, NaN or infinity.
    """
    array = _as_array(features, name)
    if array.ndim != 2 or array.size == 0:
        hint = " For a single feature, use features[:, None]." if array.ndim == 1 else ""
        raise InvalidInputError(
            f"{name} must have shape (rows, features) with at least one of each. "
            f"Got shape {array.shape} instead.{hint}"
        )
    if num_features is not None and array.shape[1] != num_features:
        raise InvalidInputError(
            f"{name} must have {num_features} columns, as in the fit. Got shape {array.shape} instead."
        )
    finite = np.isfinite(array)
    if not finite.all():
        row, column = np.argwhere(~finite)[0]
        raise InvalidInputError(
            f"{name} must be finite. Got {float(array[row, column])!r} at row {row}, column {column}: "
            "leave such rows out, or fill them in."
        )
    return array


def check_seed(seed: int) -> int:
    """The seed if it is an integer of at least 0.

    Raises:
        InvalidInputError: it is not.
    """
    try:
        checked = operator.index(seed)
    except TypeError:
        checked = -1
    if checked < 0:
        raise InvalidInputError(f"seed must be an integer of at least 0. Got {seed!r} instead.")
    return checked


def _as_array(features: Array, name: str) -> FloatArray:
    try:
        if isinstance(features, torch.Tensor):
            # NumPy has no bfloat16, so torch widens; after .cpu(), since not every device has float64.
            return np.asarray(features.detach().cpu().to(torch.float64).numpy())
        array = np.asarray(features)
        if array.dtype.kind in "fiu":
            return array.astype(np.float64, copy=False)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InvalidInputError(f"{name} must be an array of numbers: {error}") from error
    raise InvalidInputError(f"{name} must be an array of real numbers. Got dtype {array.dtype} instead.")
