"""Random access to inputs, wherever they are: arrays in memory, image files, or any torch dataset.

Whatever the storage, `fetch` gives the same thing: float32 features (N, D), or float32 images (N, C, H, W) in [0, 1].
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError
from torch import Tensor
from torch.utils.data import Dataset

from shiftcal.errors import InvalidInputError

Kind = Literal["features", "images"]


@dataclass(frozen=True)
class ImageFormat:
    """Size and channels (1 grey, 3 RGB) that all images of a problem are brought to."""

    size: int
    channels: int


class Inputs(ABC):
    """The inputs of one domain, by row number."""

    shape: tuple[int, ...]
    """(D,) for features, (channels, height, width) for images."""

    @property
    def kind(self) -> Kind:
        """What the rows are, which decides about default backbones and views."""
        return "features" if len(self.shape) == 1 else "images"

    @property
    def in_memory(self) -> bool:
        """Whether fetching is cheap enough to need no worker processes."""
        return False

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def fetch(self, rows: NDArray[np.int64]) -> Tensor:
        """The rows as float32: (N, D), or (N, C, H, W) in [0, 1]."""

    def identify(self, row: int) -> str:
        """A name for the row in prediction files: its number, or its path where it has one."""
        return str(row)

    def subset(self, rows: NDArray[np.int64]) -> Inputs:
        """The given rows, which keep their names."""
        return SubsetInputs(self, rows)


class ArrayInputs(Inputs):
    """Features (N, D) as float32, or images (N, C, H, W) as uint8 or as float32 in [0, 1], in memory."""

    def __init__(self, values: Tensor) -> None:
        if values.ndim not in (2, 4):
            raise InvalidInputError(f"expected features (N, D) or images (N, C, H, W), got {tuple(values.shape)}")
        self.values = values
        self.shape = tuple(values.shape[1:])

    @property
    def in_memory(self) -> bool:
        """Always."""
        return True

    def __len__(self) -> int:
        return len(self.values)

    def fetch(self, rows: NDArray[np.int64]) -> Tensor:
        """See `Inputs.fetch`."""
        chosen = self.values[torch.from_numpy(rows)]
        return chosen.float().div_(255) if chosen.dtype == torch.uint8 else chosen


class FileInputs(Inputs):
    """Image files, decoded when they are fetched and brought to one format."""

    def __init__(self, paths: Sequence[Path], image_format: ImageFormat, *, root: Path) -> None:
        self.paths = list(paths)
        self.root = root
        self.image_format = image_format
        self.shape = (image_format.channels, image_format.size, image_format.size)

    def __len__(self) -> int:
        return len(self.paths)

    def fetch(self, rows: NDArray[np.int64]) -> Tensor:
        """See `Inputs.fetch`."""
        return torch.stack([decode_image(self.paths[row], self.image_format) for row in rows])

    def identify(self, row: int) -> str:
        """The path below the root of the data set."""
        return self.paths[row].relative_to(self.root).as_posix()


class DatasetInputs(Inputs):
    """The inputs of any map-style torch dataset; of an item `(input, label, ...)` only the input is ever used."""

    def __init__(self, dataset: Dataset[Any]) -> None:
        self.dataset = dataset
        if len(self) == 0:
            raise InvalidInputError("expected a dataset with at least one item, got an empty one")
        self.shape = tuple(self._item(0).shape)
        if len(self.shape) not in (1, 3):
            raise InvalidInputError(
                f"expected items of shape (D,) or (C, H, W), got {self.shape}; add a transform such as ToTensor"
            )

    def __len__(self) -> int:
        return len(self.dataset)  # type: ignore[arg-type]

    def fetch(self, rows: NDArray[np.int64]) -> Tensor:
        """See `Inputs.fetch`."""
        return torch.stack([self._item(int(row)) for row in rows])

    def _item(self, row: int) -> Tensor:
        item = self.dataset[row]
        value = item[0] if isinstance(item, (tuple, list)) else item
        if not isinstance(value, Tensor):
            raise InvalidInputError(
                f"expected the dataset to give tensors, got {type(value).__name__}; add a transform such as ToTensor"
            )
        return value.float().div(255) if value.dtype == torch.uint8 else value.float()


class SubsetInputs(Inputs):
    """Some rows of other inputs."""

    def __init__(self, base: Inputs, rows: NDArray[np.int64]) -> None:
        self.base = base
        self.rows = rows
        self.shape = base.shape

    @property
    def in_memory(self) -> bool:
        """As the inputs that it is a part of."""
        return self.base.in_memory

    def __len__(self) -> int:
        return len(self.rows)

    def fetch(self, rows: NDArray[np.int64]) -> Tensor:
        """See `Inputs.fetch`."""
        return self.base.fetch(self.rows[rows])

    def identify(self, row: int) -> str:
        """The name that the row has in the inputs that it is a part of."""
        return self.base.identify(int(self.rows[row]))


def decode_image(path: Path, image_format: ImageFormat) -> Tensor:
    """One image file as a float32 tensor (C, size, size) in [0, 1].

    The shorter side is scaled to the size and the centre kept, so that proportions stay as they are.
    """
    size = image_format.size
    try:
        with Image.open(path) as opened:
            image = opened.convert("L" if image_format.channels == 1 else "RGB")
    except (UnidentifiedImageError, OSError) as error:
        raise InvalidInputError(
            f"can't decode the image {str(path)!r}: {error}. Remove the file or replace it by a readable image."
        ) from error
    scale = size / min(image.size)
    width, height = (max(size, round(side * scale)) for side in image.size)
    left, top = (width - size) // 2, (height - size) // 2
    image = image.resize((width, height), Image.Resampling.BILINEAR).crop((left, top, left + size, top + size))
    values = torch.from_numpy(np.array(image, dtype=np.float32) / 255)
    return values.reshape(size, size, image_format.channels).permute(2, 0, 1).contiguous()
