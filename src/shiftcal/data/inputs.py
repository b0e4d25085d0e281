"""Random access to inputs, wherever they are: arrays in memory, image files, or any torch dataset.

Whatever the storage, `fetch` gives the same thing: float32 features (N, D), or float32 images (N, C, H, W) in [0, 1].
"""

from __future__ import annotations

import io
import math
import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import Dataset

from shiftcal.core.errors import InvalidInputError, user_code
from shiftcal.data.encoders import Encoder
from shiftcal.data.image_decoding import decode_picture
from shiftcal.data.image_formats import ImageFormat as ImageFormat
from shiftcal.data.image_formats import convert_images

Kind = Literal["features", "images"]

_DECODING_THREADS = 4
# Decoded images are kept up to this size of a data set: a gigabyte.
_MOST_BYTES_KEPT = 2**30


class Columns(NamedTuple):
    """Numbers of a table, to be held against those of another."""

    values: NDArray[Any]
    """(N, F), NaN for what is missing."""
    names: tuple[str, ...] | None
    """Where they have names."""

    def of(self, rows: NDArray[np.int64]) -> Columns:
        """Some rows."""
        return Columns(self.values[rows], self.names)


class Inputs(ABC):
    """The inputs of one domain, by row number."""

    shape: tuple[int, ...]
    """(D,) for features, (channels, height, width) for images."""
    encoder: Encoder | None = None
    """What has made features of the rows of a table; None where nothing had to."""

    @property
    def kind(self) -> Kind:
        """What the rows are, which decides about default backbones and views."""
        return "features" if len(self.shape) == 1 else "images"

    @property
    def in_memory(self) -> bool:
        """Whether fetching is cheap enough to need no worker processes."""
        return False

    @property
    def is_worth_loading_ahead(self) -> bool:
        """Whether fetching takes long, and depends on nothing but the rows, so that a thread may do it."""
        return False

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def fetch(self, rows: NDArray[np.int64]) -> Tensor:
        """The rows as float32: (N, D), or (N, C, H, W) in [0, 1]."""

    def fetch_span(self, rows: range) -> Tensor:
        """The same of rows at even distances; it may share the memory of the data, and is not to be changed."""
        return self.fetch(np.arange(rows.start, rows.stop, rows.step, dtype=np.int64))

    def identify(self, row: int) -> str:
        """A name for the row in prediction files: its number, or its path where it has one."""
        return str(row)

    def subset(self, rows: NDArray[np.int64]) -> Inputs:
        """The given rows, which keep their names."""
        return SubsetInputs(self, rows)

    def columns(self) -> Columns | None:
        """The columns of numbers as they came, before anything was made of them; None where there are none."""
        return None

    def in_format(self, image_format: ImageFormat) -> Inputs:
        """The same images brought to another format; these very inputs if they already have it.

        Raises:
            InvalidInputError: the rows are features, or their size is fixed by whoever made them.
        """
        if self.shape == image_format.shape:
            return self
        if self.kind == "features":
            raise InvalidInputError(f"expected images, got features of shape {self.shape}")
        return self._converted(image_format)

    def _converted(self, image_format: ImageFormat) -> Inputs:
        raise InvalidInputError(
            f"expected images of shape {image_format.shape}, got {self.shape}; resize them where they are made"
        )


class ArrayInputs(Inputs):
    """Features (N, D) as float32, or images (N, C, H, W) as uint8 or as float32 in [0, 1], in memory."""

    def __init__(self, values: Tensor, encoder: Encoder | None = None) -> None:
        if values.ndim not in (2, 4):
            raise InvalidInputError(f"expected features (N, D) or images (N, C, H, W), got {tuple(values.shape)}")
        self.values = values
        self.shape = tuple(values.shape[1:])
        self.encoder = encoder

    @property
    def in_memory(self) -> bool:
        """Always."""
        return True

    def __len__(self) -> int:
        return len(self.values)

    def fetch(self, rows: NDArray[np.int64]) -> Tensor:
        """See `Inputs.fetch`."""
        return self._as_numbers(self.values.index_select(0, torch.from_numpy(rows)))

    def fetch_span(self, rows: range) -> Tensor:
        """See `Inputs.fetch_span`; no copy is made."""
        return self._as_numbers(self.values[rows.start : rows.stop : rows.step])

    @staticmethod
    def _as_numbers(chosen: Tensor) -> Tensor:
        return chosen.float().div_(255) if chosen.dtype == torch.uint8 else chosen

    def columns(self) -> Columns | None:
        """See `Inputs.columns`."""
        is_plain = self.kind == "features" and self.encoder is None
        return Columns(self.values.numpy(), None) if is_plain else None

    def _converted(self, image_format: ImageFormat) -> Inputs:
        return ArrayInputs(convert_images(self.values, image_format))


class DecodedInputs(Inputs):
    """Images that are decoded when they are first fetched; where all of them fit in memory they are kept."""

    def __init__(self, image_format: ImageFormat) -> None:
        self.image_format = image_format
        self.shape = image_format.shape
        self._kept: dict[int, Tensor] = {}

    @property
    def is_worth_loading_ahead(self) -> bool:
        """Always."""
        return True

    @abstractmethod
    def _decode(self, row: int) -> Tensor:
        """One image as float32 (C, size, size) in [0, 1]."""

    def fetch(self, rows: NDArray[np.int64]) -> Tensor:
        """See `Inputs.fetch`."""
        wanted = rows.tolist()
        missing = [row for row in dict.fromkeys(wanted) if row not in self._kept]
        with ThreadPoolExecutor(_DECODING_THREADS) as pool:
            decoded = dict(zip(missing, pool.map(self._decode, missing), strict=True))
        if len(self) * math.prod(self.shape) <= _MOST_BYTES_KEPT:
            # Pixels were bytes before they were numbers, so nothing is lost.
            self._kept |= {row: image.mul(255).round().to(torch.uint8) for row, image in decoded.items()}
        return torch.stack([decoded[row] if row in decoded else self._kept[row].float().div(255) for row in wanted])


class FileInputs(DecodedInputs):
    """Image files, brought to one format."""

    def __init__(self, paths: Sequence[Path], image_format: ImageFormat, *, root: Path) -> None:
        super().__init__(image_format)
        self.paths = list(paths)
        self.root = root

    def __len__(self) -> int:
        return len(self.paths)

    def _decode(self, row: int) -> Tensor:
        path = self.paths[row]
        return decode_picture(path, self.image_format, name=str(path))

    def identify(self, row: int) -> str:
        """The path below the root of the data set, or the whole path of a file elsewhere."""
        path = self.paths[row]
        return readable((path.relative_to(self.root) if path.is_relative_to(self.root) else path).as_posix())

    def _converted(self, image_format: ImageFormat) -> Inputs:
        return FileInputs(self.paths, image_format, root=self.root)


def readable(name: str) -> str:
    """The name of a file as text that can be written, whatever bytes it is made of."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")


class EncodedInputs(DecodedInputs):
    """Encoded images (JPEG, PNG, ...) in one array of bytes: image i is `encoded[offsets[i]:offsets[i + 1]]`."""

    def __init__(
        self,
        encoded: NDArray[np.uint8],
        offsets: NDArray[np.int64],
        image_format: ImageFormat,
        *,
        names: Sequence[str],
    ) -> None:
        super().__init__(image_format)
        if not _are_parts(offsets, len(names), encoded):
            raise InvalidInputError(
                f"expected {len(names)} encoded pictures as bytes (uint8), and {len(names) + 1} offsets that grow "
                f"from 0 to the number of bytes; got {encoded.dtype} {encoded.shape} and {offsets.dtype} "
                f"{offsets.shape}"
            )
        self.encoded = encoded
        self.offsets = offsets
        self.names = list(names)

    def __len__(self) -> int:
        return len(self.names)

    def identify(self, row: int) -> str:
        """The path that the image had when it was packed."""
        return self.names[row]

    def _decode(self, row: int) -> Tensor:
        content = io.BytesIO(self.encoded[self.offsets[row] : self.offsets[row + 1]].tobytes())
        return decode_picture(content, self.image_format, name=self.names[row])

    def _converted(self, image_format: ImageFormat) -> Inputs:
        return EncodedInputs(self.encoded, self.offsets, image_format, names=self.names)


def _are_parts(offsets: NDArray[Any], count: int, encoded: NDArray[Any]) -> bool:
    """Whether the offsets cut the bytes into that many parts."""
    return (
        encoded.dtype == np.uint8
        and encoded.ndim == 1
        and offsets.dtype.kind in "iu"
        and offsets.shape == (count + 1,)
        and bool((offsets[1:] >= offsets[:-1]).all())
        and int(offsets[0]) >= 0
        and int(offsets[-1]) <= len(encoded)
    )


class DatasetInputs(Inputs):
    """The inputs of any map-style torch dataset; of an item `(input, label, ...)` only the input is ever used."""

    def __init__(self, dataset: Dataset[Any]) -> None:
        self.dataset = dataset
        if len(self) == 0:
            raise InvalidInputError("expected a dataset with at least one item, got an empty one")
        self.shape = tuple(self._value(0).shape)
        if len(self.shape) not in (1, 3) or 0 in self.shape:
            raise InvalidInputError(
                f"expected items of shape (D,) or (C, H, W), got {self.shape}; add a transform such as ToTensor"
            )

    def __len__(self) -> int:
        return length_of(self.dataset)

    def fetch(self, rows: NDArray[np.int64]) -> Tensor:
        """See `Inputs.fetch`."""
        return torch.stack([self._item(int(row)) for row in rows])

    def _item(self, row: int) -> Tensor:
        value = self._value(row)
        if value.shape != self.shape:
            raise InvalidInputError(
                f"{_item_name(self.dataset, row)} has the shape {tuple(value.shape)}, the first one {self.shape}; "
                "expected one shape for all"
            )
        if not bool(torch.isfinite(value).all()):
            raise InvalidInputError(
                f"{_item_name(self.dataset, row)} has NaN or infinite values; leave it out or mend it"
            )
        return value

    def _value(self, row: int) -> Tensor:
        item = item_of(self.dataset, row)
        value = item[0] if isinstance(item, (tuple, list)) and item else item
        if not isinstance(value, Tensor) or value.is_complex():
            kind = value.dtype if isinstance(value, Tensor) else type(value).__name__
            raise InvalidInputError(
                f"expected the dataset to give tensors of real numbers, got {kind} in item {row}; "
                "add a transform such as ToTensor"
            )
        return value.float().div(255) if value.dtype == torch.uint8 else value.float()


def length_of(dataset: Dataset[Any]) -> int:
    """How many items a dataset of the user's has.

    Raises:
        InvalidInputError: it can't tell.
        UserCodeError: it raises an error.
    """
    if not hasattr(dataset, "__len__"):
        raise InvalidInputError(f"expected a dataset with a length, got {type(dataset).__name__} without")
    with user_code(f"the length of the dataset {type(dataset).__name__}"):
        return len(dataset)


def item_of(dataset: Dataset[Any], row: int) -> Any:
    """An item of a dataset of the user's.

    Raises:
        UserCodeError: the dataset raises an error.
    """
    with user_code(_item_name(dataset, row)):
        return dataset[row]


def _item_name(dataset: Dataset[Any], row: int) -> str:
    return f"item {row} of the dataset {type(dataset).__name__}"


class SubsetInputs(Inputs):
    """Some rows of other inputs."""

    def __init__(self, base: Inputs, rows: NDArray[np.int64]) -> None:
        self.base = base
        self.rows = rows
        self.shape = base.shape
        self.encoder = base.encoder

    @property
    def in_memory(self) -> bool:
        """As the inputs that it is a part of."""
        return self.base.in_memory

    @property
    def is_worth_loading_ahead(self) -> bool:
        """As the inputs that it is a part of."""
        return self.base.is_worth_loading_ahead

    def __len__(self) -> int:
        return len(self.rows)

    def fetch(self, rows: NDArray[np.int64]) -> Tensor:
        """See `Inputs.fetch`."""
        return self.base.fetch(self.rows[rows])

    def columns(self) -> Columns | None:
        """See `Inputs.columns`."""
        columns = self.base.columns()
        return None if columns is None else columns.of(self.rows)

    def identify(self, row: int) -> str:
        """The name that the row has in the inputs that it is a part of."""
        return self.base.identify(int(self.rows[row]))

    def _converted(self, image_format: ImageFormat) -> Inputs:
        return SubsetInputs(self.base.in_format(image_format), self.rows)
