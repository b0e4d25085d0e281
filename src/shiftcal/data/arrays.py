"""From what users hold in their hands (arrays, tensors, datasets, domains) to inputs and labels."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Iterator, Mapping, Set
from itertools import islice
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor
from torch.utils.data import Dataset, IterableDataset

from shiftcal.core.errors import InvalidInputError, shown
from shiftcal.data.domains import LabelledDomain, Rows, UnlabelledDomain
from shiftcal.data.inputs import ArrayInputs, DatasetInputs, Inputs, item_of, length_of
from shiftcal.data.labels import class_numbers

_ACCEPTED = (
    "float features (N, D), images as a NumPy uint8 array (N, H, W) or (N, H, W, C), images as a torch float tensor "
    "(N, C, H, W) in [0, 1], or a torch Dataset"
)


def inputs_from(values: Any, name: str) -> Inputs:
    """Inputs from an array, tensor, dataset or domain.

    Args:
        values: see the error message for what is taken.
        name: what the user calls it, for messages.

    Raises:
        InvalidInputError: wrong type, shape or values.
    """
    if isinstance(values, Inputs):
        return values
    if isinstance(values, (LabelledDomain, UnlabelledDomain)):
        return values.inputs
    if isinstance(values, IterableDataset):
        raise InvalidInputError(
            f"{name}: expected a dataset with a length and items by number, got the iterable {type(values).__name__}"
        )
    if isinstance(values, Dataset):
        return DatasetInputs(values)
    check_kind(values, name)
    tensor = _image_tensor(values, name) if getattr(values, "ndim", 2) != 2 else _feature_tensor(values, name)
    if 0 in tensor.shape:
        raise InvalidInputError(f"{name}: expected at least one row and column, got shape {tuple(tensor.shape)}")
    return ArrayInputs(tensor)


def check_kind(values: Any, name: str) -> None:
    """Raise `InvalidInputError` if no rows could be in it, or if they could be asked for only once."""
    if values is None or isinstance(values, (str, bytes, Mapping, Set, Iterator)):
        raise InvalidInputError(f"{name}: expected {_ACCEPTED}; got {shown(values)}")
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        raise InvalidInputError(
            f"{name}: expected an array that hides nothing, got one with {int(values.mask.sum())} masked values; "
            "say what they are, as with filled(numpy.nan) where they are missing"
        )
    unusual = isinstance(values, Tensor) and (
        values.layout != torch.strided or values.is_quantized or values.device.type == "meta"
    )
    if unusual:
        raise InvalidInputError(
            f"{name}: expected an ordinary dense tensor, got one of layout {values.layout}, {values.dtype} on the "
            f"device {values.device}; convert it, as with to_dense() or dequantize()"
        )


def labels_of_dataset(dataset: Dataset[Any], name: str) -> list[Hashable]:
    """Second part of each item of a labelled dataset, by its `targets` or `labels` where it has them."""
    num_items = length_of(dataset)
    for attribute in ("targets", "labels"):
        known = getattr(dataset, attribute, None)
        # Some datasets call a list of their class names so.
        if isinstance(known, (list, tuple, np.ndarray, Tensor)) and len(known) == num_items:
            return list(np.asarray(known).tolist())
    return [_label_of_item(item_of(dataset, row), name) for row in range(num_items)]


def _label_of_item(item: Any, name: str) -> Hashable:
    if not (isinstance(item, (tuple, list)) and len(item) > 1):
        raise InvalidInputError(f"{name}: labels are missing; expected y, or a dataset of items (input, label)")
    label: Hashable = item[1].item() if isinstance(item[1], Tensor) else item[1]
    return label


def encode_labels(labels: Any, name: str) -> tuple[Rows, NDArray[Any]]:
    """Class numbers (N,) and the sorted classes, for labels of any hashable type.

    Raises:
        InvalidInputError: a missing label (None or NaN), one that is not hashable or can't be told from others, or
            fewer than two classes.
    """
    try:
        values = plain_labels(labels, name)
        codes, classes = class_numbers(values)
        for label in classes:
            str(label)  # files and messages will need it; of an integer of 5,000 digits Python refuses to make any
    except InvalidInputError:
        raise
    except Exception as error:  # of comparing or writing labels of the user's own types
        raise InvalidInputError(
            f"{name}: expected labels that can be compared and written, got some that raise "
            f"{type(error).__name__}: {error}"
        ) from error
    if len(classes) < 2:
        found = f"1 class: {shown(classes[0])}" if classes else "no labels"
        raise InvalidInputError(f"{name}: expected labels of at least two classes, got {found}")
    return codes, _class_array(classes, labels)


def plain_labels(labels: Any, name: str) -> list[Any]:
    """One label for each row, from a list, array, tensor, series, or a frame or array of one column.

    Raises:
        InvalidInputError: no labels, several columns, a missing label (None or NaN), or one that is not hashable.
    """
    values = _label_list(labels, name)
    strange = next((row for row, label in enumerate(values) if not _is_hashable(label)), None)
    if strange is not None:
        raise InvalidInputError(
            f"{name}: expected one label for each row, such as text or a number; "
            f"got {shown(values[strange])} in row {strange}"
        )
    missing = [row for row, label in enumerate(values) if _is_missing(label)]
    if missing:
        raise InvalidInputError(
            f"{name}: {len(missing)} of {len(values)} labels are missing (None or NaN), the first in row "
            f"{missing[0]}; remove those rows"
        )
    return values


def _label_list(labels: Any, name: str) -> list[Any]:
    shape = tuple(getattr(labels, "shape", ()))
    if len(shape) > 1 and shape[1] != 1:
        raise InvalidInputError(
            f"{name}: expected one label for each row, got {shape[1]} columns; of one-hot labels give the argmax"
        )
    if isinstance(labels, (str, bytes, Mapping, Set, Iterator)) or not hasattr(labels, "__len__"):
        raise InvalidInputError(f"{name}: expected labels in a list or array, one for each row; got {shown(labels)}")
    if getattr(labels, "ndim", 1) == 0:
        raise InvalidInputError(f"{name}: expected one label for each row, got a single value: {shown(labels)}")
    if len(shape) > 1:
        column = labels.to_numpy() if hasattr(labels, "to_numpy") else labels
        labels = column.reshape(-1)
    # Not more than it says: what has a length and items need not have an end.
    values = labels.tolist() if hasattr(labels, "tolist") else list(islice(labels, len(labels)))
    # Tensors are compared by identity: each would be a class of its own.
    return [label.tolist() if isinstance(label, Tensor) else label for label in values]


def _is_hashable(label: Any) -> bool:
    try:
        hash(label)
    except TypeError:
        return False
    return True


def _is_missing(label: Any) -> bool:
    try:
        return label is None or bool(label != label)
    except TypeError:  # pandas.NA, which has no truth value
        return True


def _class_array(classes: tuple[Any, ...], labels: Any) -> NDArray[Any]:
    if isinstance(labels, np.ndarray) and labels.dtype != object:
        return np.array(classes, dtype=labels.dtype)
    plain = np.empty(len(classes), dtype=object)
    for number, label in enumerate(classes):  # one by one: together NumPy would make arrays of some of them
        plain[number] = label
    kinds = {type(label) for label in classes}
    if len(kinds) > 1 or not kinds <= {str, int, float, bool}:
        return plain
    array = np.array(classes)
    # NumPy drops what is NUL at the end of a text.
    return array if array.tolist() == list(classes) else plain


def _feature_tensor(values: ArrayLike | Tensor, name: str) -> Tensor:
    if isinstance(values, Tensor):
        # NumPy does not know torch's bfloat16.
        values = values.detach().cpu().float() if values.is_floating_point() else values.detach().cpu()
    try:
        array = np.asarray(values)
    except Exception as error:  # rows of different lengths, or whatever an object of the user's own raises
        raise InvalidInputError(f"{name}: expected {_ACCEPTED}; {error}") from error
    if array.ndim != 2 or array.dtype.kind not in "fiub":
        raise InvalidInputError(f"{name}: expected {_ACCEPTED}; got dtype {array.dtype}, shape {array.shape}")
    with np.errstate(over="ignore", invalid="ignore"):  # too large for float32 becomes inf and is reported below
        features = np.ascontiguousarray(array, dtype=np.float32)
        # A sum takes no memory and a fraction of the time; it is not finite if one of the numbers is not.
        is_suspicious = not bool(_shared_tensor(features).sum().isfinite())
    bad = np.asarray(~np.isfinite(features).all(axis=1)) if is_suspicious else np.zeros(0, dtype=bool)
    if bad.any():
        raise InvalidInputError(
            f"{name}: {int(bad.sum())} of {len(bad)} rows have NaN or infinite features (or too large for float32), "
            f"the first is row {int(bad.argmax())}; remove or impute them"
        )
    return _shared_tensor(features)


def _shared_tensor(array: NDArray[Any]) -> Tensor:
    """The array as a tensor, of the same memory: rows may be more than would fit twice. Nobody here writes to it."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        return torch.from_numpy(array)


def _image_tensor(values: Any, name: str) -> Tensor:
    if isinstance(values, Tensor):
        return _checked_image_tensor(values.detach().cpu(), name)
    array = np.asarray(values)
    if array.dtype != np.uint8 or array.ndim not in (3, 4):
        raise InvalidInputError(f"{name}: expected {_ACCEPTED}; got dtype {array.dtype}, shape {array.shape}")
    if array.ndim == 3:
        array = array[..., None]
    if array.shape[-1] not in (1, 3):
        raise InvalidInputError(
            f"{name}: expected images with 1 or 3 channels last, (N, H, W, C), as PIL and NumPy give them; "
            f"got shape {array.shape}"
        )
    return _shared_tensor(np.ascontiguousarray(array.transpose(0, 3, 1, 2)))


def _checked_image_tensor(images: Tensor, name: str) -> Tensor:
    if images.ndim != 4 or not images.is_floating_point():
        raise InvalidInputError(
            f"{name}: expected {_ACCEPTED}; got dtype {images.dtype}, shape {tuple(images.shape)}"
        )
    if not bool(torch.isfinite(images).all()):
        raise InvalidInputError(f"{name}: images have NaN or infinite values; remove or repair them")
    return images.float()
