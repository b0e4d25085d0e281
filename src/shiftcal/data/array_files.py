"""Arrays in `.npz` and `.npy` files as domains.

| arrays | meaning |
|---|---|
| inputs uint8 (N, H, W, C) or (N, H, W) | images, C = 1 or 3 |
| inputs float (N, D) | features, kept as float32 |
| labels integer or text (N,) | classes, sorted; positions in `classes` if the file has an array of that name |
| `P_jpeg`, `P_offsets`, `P_y`, `P_paths` | encoded pictures: picture i is the bytes offsets[i]:offsets[i + 1] |

Pickled objects are never loaded.
"""

from __future__ import annotations

import zipfile
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from shiftcal.core.errors import InvalidInputError, UnknownNameError
from shiftcal.data.domains import LabelledDomain, Rows, UnlabelledDomain
from shiftcal.data.image_files import DEFAULT_IMAGE_SIZE, Domain
from shiftcal.data.inputs import ArrayInputs, EncodedInputs, ImageFormat
from shiftcal.data.labels import class_numbers

Array = NDArray[Any]

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


class ArrayFile:
    """An open `.npz` file whose errors name the file and what is in it."""

    def __init__(self, path: Path, archive: Any) -> None:
        self.path = path
        self._archive = archive
        self.names = tuple(archive.files)

    def __contains__(self, name: str) -> bool:
        return name in self.names

    def __getitem__(self, name: str) -> Array:
        if name not in self:
            raise UnknownNameError(f"array of {str(self.path)!r}", name, self.names)
        try:
            return np.asarray(self._archive[name])
        except (ValueError, zipfile.BadZipFile, EOFError, OSError) as error:
            raise InvalidInputError(
                f"can't read the array {name!r} of {str(self.path)!r}: {error}. "
                "Expected numbers or text; pickled objects are never loaded."
            ) from error

    def describe(self) -> str:
        """Name, type and shape of each array."""
        return ", ".join(self._describe(name) for name in self.names) or "no arrays"

    def _describe(self, name: str) -> str:
        try:
            values = self[name]
        except InvalidInputError:
            return f"{name} (unreadable or Python objects)"
        return f"{name} {values.dtype} {values.shape}"


@contextmanager
def open_array_file(path: Path) -> Iterator[ArrayFile]:
    """Open a `.npz` file.

    Raises:
        InvalidInputError: it is not one, or it is damaged.
    """
    try:
        archive = np.load(path, allow_pickle=False)
    except (ValueError, zipfile.BadZipFile, EOFError, OSError) as error:
        raise InvalidInputError(f"can't read {str(path)!r} as a .npz file: {error}") from error
    if not isinstance(archive, np.lib.npyio.NpzFile):
        raise InvalidInputError(f"{str(path)!r} is not a .npz file but a single array; name it .npy")
    with archive:
        yield ArrayFile(path, archive)


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
    if names.classes in file:
        classes = tuple(np.atleast_1d(file[names.classes]).tolist())
    where = f"array {names.labels!r} of {str(file.path)!r}"
    codes, classes = encode_array_labels(file[names.labels], classes, where)
    return LabelledDomain(name, inputs, codes, classes)


def single_array_domain(path: Path, name: str) -> UnlabelledDomain:
    """The one array of a `.npy` file as inputs without labels.

    Raises:
        InvalidInputError: it can't be read or has not the expected form.
    """
    try:
        values = np.load(path, allow_pickle=False)
    except (ValueError, EOFError, OSError) as error:
        raise InvalidInputError(f"can't read {str(path)!r} as a .npy file: {error}") from error
    return UnlabelledDomain(name, array_inputs(np.asarray(values), f"array of {str(path)!r}"))


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
    if labels.dtype.kind == "S":
        labels = np.char.decode(labels, "utf-8")
    if classes is None or labels.dtype.kind == "U":
        return class_numbers(labels.tolist())
    codes = labels.astype(np.int64)
    if len(codes) and not (codes.min() >= 0 and codes.max() < len(classes)):
        raise InvalidInputError(
            f"{where}: expected positions in the {len(classes)} classes, 0 to {len(classes) - 1}, "
            f"got values from {codes.min()} to {codes.max()}"
        )
    return codes, classes


def _packed_pictures(file: ArrayFile, prefix: str, name: str) -> LabelledDomain:
    inputs = EncodedInputs(
        file[f"{prefix}_jpeg"],
        file[f"{prefix}_offsets"],
        ImageFormat(DEFAULT_IMAGE_SIZE, 3),
        names=file[f"{prefix}_paths"].tolist(),
    )
    classes = tuple(file["classes"].tolist()) if "classes" in file else None
    codes, classes = encode_array_labels(file[f"{prefix}_y"], classes, f"array '{prefix}_y' of {str(file.path)!r}")
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
