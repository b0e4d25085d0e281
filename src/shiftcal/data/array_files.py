"""Arrays in `.npz` and `.npy` files as domains.

| arrays | meaning |
|---|---|
| inputs uint8 (N, H, W, C) or (N, H, W) | images, C = 1 or 3 |
| inputs float (N, D) | features, kept as float32 |
| labels integer or text (N,) | classes, sorted; positions in `classes` if the file has an array of that name |
| `P_jpeg`, `P_offsets`, `P_y`, `P_paths` | encoded pictures: picture i is the bytes offsets[i]:offsets[i + 1] |

Files are read by `shiftcal.core.array_reading`, which trusts none.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from shiftcal.core.array_reading import Array, ArrayFile, read_array_file
from shiftcal.core.errors import InvalidInputError, UnknownNameError
from shiftcal.data.domains import LabelledDomain, Rows, UnlabelledDomain
from shiftcal.data.image_files import DEFAULT_IMAGE_SIZE, Domain
from shiftcal.data.inputs import ArrayInputs, EncodedInputs, ImageFormat

DEFAULT_NAMES = (
    ("x", "y"),
    ("X", "y"),
    ("X", "Y"),
    ("images", "labels"),
    ("features", "labels"),
    ("data", "labels"),
    ("train_x", "train_y"),
    ("x_train", "y_train"),
    ("X_train", "y_train"),
    ("train_images", "train_labels"),
)
"""Names of inputs and labels that are tried, in this order, where none are given."""


@dataclass(frozen=True)
class ArrayNames:
    """Which arrays of a file are meant; `labels` None leaves the domain without labels."""

    inputs: str
    labels: str | None
    classes: str = "classes"


def default_names(file: ArrayFile) -> ArrayNames:
    """The arrays that a file has under one of the usual pairs of names.

    Raises:
        InvalidInputError: it has none of them.
    """
    for inputs, labels in DEFAULT_NAMES:
        if inputs in file:
            return ArrayNames(inputs, labels if labels in file else None)
    raise InvalidInputError(
        f"can't tell which arrays of {str(file.path)!r} to use: it has {file.describe()}. Expected x and y, "
        "or choose: FILE.npz:PREFIX for PREFIX_x and PREFIX_y, FILE.npz#x=INPUTS,y=LABELS for any names."
    )


def prefixed_domain(file: ArrayFile, prefix: str, name: str, classes: tuple[Hashable, ...] | None = None) -> Domain:
    """The arrays `PREFIX_x` and `PREFIX_y` (absent: no labels), or the packed pictures `PREFIX_jpeg`, as a domain.

    `x_PREFIX` and `y_PREFIX` are understood too.

    Raises:
        UnknownNameError: the file has no such arrays.
        InvalidInputError: they do not have the expected form.
    """
    if f"{prefix}_jpeg" in file:
        return _packed_pictures(file, prefix, name)
    for inputs, labels in ((f"{prefix}_x", f"{prefix}_y"), (f"x_{prefix}", f"y_{prefix}")):
        if inputs in file:
            return array_domain(file, ArrayNames(inputs, labels if labels in file else None), name, classes)
    known = [array.rpartition("_")[0] for array in file.names if array.endswith(("_x", "_jpeg"))]
    raise UnknownNameError(f"part of {str(file.path)!r}", prefix, known)


def array_domain(
    file: ArrayFile, names: ArrayNames, name: str, classes: tuple[Hashable, ...] | None = None
) -> Domain:
    """The chosen arrays as a domain; `classes` names the labels 0, 1, ... where the file does not.

    Raises:
        UnknownNameError: the file has no such array.
        InvalidInputError: an array has not the expected form.
    """
    where = f"array {names.inputs!r} of {str(file.path)!r}"
    values = file[names.inputs]
    if not _has_usable_form(values):
        raise InvalidInputError(f"{_expected_form(where, values)} The file has: {file.describe()}.")
    inputs = array_inputs(values, where)
    if names.labels is None:
        return UnlabelledDomain(name, inputs)
    codes, classes = _labels(file, names.labels, names.classes, classes)
    return LabelledDomain(name, inputs, codes, classes)


def single_array_domain(path: Path, name: str) -> UnlabelledDomain:
    """The one array of a `.npy` file as inputs without labels.

    Raises:
        InvalidInputError: it can't be read or has not the expected form.
    """
    return UnlabelledDomain(name, array_inputs(read_array_file(path), f"array of {str(path)!r}"))


def array_inputs(values: Array, where: str) -> ArrayInputs:
    """Images (N, H, W[, C]) uint8 or features (N, D) float as inputs in memory.

    Raises:
        InvalidInputError: another form, no rows, or features that are not finite.
    """
    if not _has_usable_form(values):
        raise InvalidInputError(_expected_form(where, values))
    if values.ndim == 2:
        return ArrayInputs(_checked_features(values, where))
    images = torch.from_numpy(values if values.ndim == 4 else values[..., None])
    return ArrayInputs(images.permute(0, 3, 1, 2).contiguous())


def encode_array_labels(
    labels: Array, classes: tuple[Hashable, ...] | None, where: str
) -> tuple[Rows, tuple[Hashable, ...]]:
    """Positions of the labels in the classes, and the classes: those that occur, sorted, if none are given.

    Raises:
        InvalidInputError: labels that are neither whole numbers nor text, or beyond the given classes.
    """
    if labels.ndim != 1 or labels.dtype.kind not in "iubUS":
        raise InvalidInputError(
            f"{where}: expected one whole number or text per row, shape (N,), got {labels.dtype} {labels.shape}"
        )
    if classes is None or labels.dtype.kind in "US":
        found, codes = np.unique(_as_text(labels, where), return_inverse=True)
        return codes.astype(np.int64), tuple(found.tolist())
    codes = labels.astype(np.int64)
    if len(codes) and not (codes.min() >= 0 and codes.max() < len(classes)):
        raise InvalidInputError(
            f"{where}: expected positions in the {len(classes)} classes, 0 to {len(classes) - 1}, "
            f"got values from {codes.min()} to {codes.max()}"
        )
    return codes, classes


def _labels(
    file: ArrayFile, name: str, classes_name: str, classes: tuple[Hashable, ...] | None
) -> tuple[Rows, tuple[Hashable, ...]]:
    """An array of labels, with classes that the file itself may have."""
    if classes_name in file:
        where = f"array {classes_name!r} of {str(file.path)!r}"
        values = np.atleast_1d(file[classes_name])
        if values.ndim != 1 or values.dtype.kind not in "iubfUS" or len(np.unique(values)) < len(values):
            raise InvalidInputError(
                f"{where}: expected a name or number of its own for each class, got {values.dtype} {values.shape}"
            )
        classes = tuple(_as_text(values, where).tolist())
    return encode_array_labels(file[name], classes, f"array {name!r} of {str(file.path)!r}")


def _as_text(values: Array, where: str) -> Array:
    """Bytes as text; anything else as it is."""
    if values.dtype.kind != "S":
        return values
    try:
        return np.char.decode(values, "utf-8")
    except UnicodeDecodeError as error:
        raise InvalidInputError(f"{where}: expected text in UTF-8; {error}") from error


def _packed_pictures(file: ArrayFile, prefix: str, name: str) -> LabelledDomain:
    inputs = EncodedInputs(
        file[f"{prefix}_jpeg"],
        file[f"{prefix}_offsets"],
        ImageFormat(DEFAULT_IMAGE_SIZE, 3),
        names=[str(path) for path in file[f"{prefix}_paths"].ravel().tolist()],
    )
    codes, classes = _labels(file, f"{prefix}_y", "classes", None)
    return LabelledDomain(name, inputs, codes, classes)


def _has_usable_form(values: Array) -> bool:
    if 0 in values.shape:
        return False
    if values.dtype == np.uint8:
        return values.ndim == 3 or (values.ndim == 4 and values.shape[3] in (1, 3))
    return values.ndim == 2 and values.dtype.kind == "f"


def _expected_form(where: str, values: Array) -> str:
    return (
        f"{where}: expected images uint8 (N, H, W, 1 or 3) or (N, H, W), or features float (N, D), with at least "
        f"one row, got {values.dtype} {values.shape}."
    )


def _checked_features(values: Array, where: str) -> torch.Tensor:
    with np.errstate(over="ignore"):  # a value too large for float32 becomes infinite and is reported below
        features = values.astype(np.float32)
    unusable = ~np.isfinite(features).all(axis=1)
    if unusable.any():
        raise InvalidInputError(
            f"{where}: {np.count_nonzero(~np.isfinite(features))} values in {np.count_nonzero(unusable)} rows are "
            f"NaN or infinite, first in row {int(np.argmax(unusable))}. Replace them or drop those rows."
        )
    return torch.from_numpy(features)
