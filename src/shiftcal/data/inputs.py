"""Random access to inputs, wherever they are: arrays in memory, image files, or any torch dataset.

Whatever the storage, `fetch` gives the same thing: float32 features (N, D), or float32 images (N, C, H, W) in [0, 1].
"""

from __future__ import annotations

import io
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor
from torch.nn.functional import interpolate
from torch.utils.data import Dataset

from shiftcal.core.errors import InvalidInputError
from shiftcal.data.encoders import Encoder

Kind = Literal["features", "images"]

_DECODING_THREADS = 4
# Decoded images are kept up to this size of a data set: a gigabyte.
_MOST_BYTES_KEPT = 2**30


@dataclass(frozen=True)
class ImageFormat:
    """Size and channels (1 grey, 3 RGB) that all images of a problem are brought to."""

    size: int
    channels: int

    @property
    def shape(self) -> tuple[int, int, int]:
        """(channels, height, width)."""
        return (self.channels, self.size, self.size)


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
        chosen = self.values[torch.from_numpy(rows)]
        return chosen.float().div_(255) if chosen.dtype == torch.uint8 else chosen

    def _converted(self, image_format: ImageFormat) -> Inputs:
        return ArrayInputs(convert_images(self.values, image_format))


class _DecodedInputs(Inputs):
    """Images that are decoded when they are first fetched; where all of them fit in memory they are kept."""

    def __init__(self, image_format: ImageFormat) -> None:
        self.image_format = image_format
        self.shape = image_format.shape
        self._kept: dict[int, Tensor] = {}

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


class FileInputs(_DecodedInputs):
    """Image files, brought to one format."""

    def __init__(self, paths: Sequence[Path], image_format: ImageFormat, *, root: Path) -> None:
        super().__init__(image_format)
        self.paths = list(paths)
        self.root = root

    def __len__(self) -> int:
        return len(self.paths)

    def _decode(self, row: int) -> Tensor:
        return decode_image(self.paths[row], self.image_format)

    def identify(self, row: int) -> str:
        """The path below the root of the data set, or the whole path of a file elsewhere."""
        path = self.paths[row]
        return (path.relative_to(self.root) if path.is_relative_to(self.root) else path).as_posix()

    def _converted(self, image_format: ImageFormat) -> Inputs:
        return FileInputs(self.paths, image_format, root=self.root)


class EncodedInputs(_DecodedInputs):
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
        self.encoded = encoded
        self.offsets = offsets
        self.names = list(names)

    def __len__(self) -> int:
        return len(self.names)

    def identify(self, row: int) -> str:
        """The path that the image had when it was packed."""
        return self.names[row]

    def _decode(self, row: int) -> Tensor:
        content = self.encoded[self.offsets[row] : self.offsets[row + 1]].tobytes()
        return decode_image(io.BytesIO(content), self.image_format, name=self.names[row])

    def _converted(self, image_format: ImageFormat) -> Inputs:
        return EncodedInputs(self.encoded, self.offsets, image_format, names=self.names)


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
        self.encoder = base.encoder

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

    def _converted(self, image_format: ImageFormat) -> Inputs:
        return SubsetInputs(self.base.in_format(image_format), self.rows)


def decode_image(source: Path | IO[bytes], image_format: ImageFormat, *, name: str | None = None) -> Tensor:
    """One image file, or the bytes of one, as a float32 tensor (C, size, size) in [0, 1].

    The shorter side is scaled to the size and the centre kept, so that proportions stay as they are.
    """
    size = image_format.size
    try:
        with Image.open(source) as opened:
            image = opened.convert("L" if image_format.channels == 1 else "RGB")
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise InvalidInputError(
            f"can't decode the image {name or str(source)!r}: {error}. "
            "Remove the file or replace it by a readable image."
        ) from error
    scale = size / min(image.size)
    width, height = (max(size, round(side * scale)) for side in image.size)
    left, top = (width - size) // 2, (height - size) // 2
    image = image.resize((width, height), Image.Resampling.BILINEAR).crop((left, top, left + size, top + size))
    values = torch.from_numpy(np.array(image, dtype=np.float32) / 255)
    return values.reshape(size, size, image_format.channels).permute(2, 0, 1).contiguous()


# Rows converted at once: bounds the float copy that interpolation needs.
_CONVERTED_AT_ONCE = 4096
# Weights of red, green and blue in the grey value (ITU-R 601), as Pillow's conversion has them.
_LUMA = (0.299, 0.587, 0.114)


def convert_images(values: Tensor, image_format: ImageFormat) -> Tensor:
    """Images (N, C, H, W) in the given size and channels, of the dtype that they have.

    As for files, the shorter side is scaled to the size and the centre kept. Grey becomes RGB without a copy.
    """
    channels = min(values.shape[1], image_format.channels)
    if (channels, image_format.size, image_format.size) != tuple(values.shape[1:]):
        converted = values.new_empty(len(values), channels, image_format.size, image_format.size)
        for start in range(0, len(values), _CONVERTED_AT_ONCE):
            part = slice(start, start + _CONVERTED_AT_ONCE)
            converted[part] = _rounded_as(values.dtype, _resized(values[part].float(), channels, image_format.size))
        values = converted
    return values.expand(-1, image_format.channels, -1, -1)


def _resized(values: Tensor, channels: int, size: int) -> Tensor:
    if values.shape[1] != channels:
        values = (values * values.new_tensor(_LUMA).view(1, 3, 1, 1)).sum(1, keepdim=True)
    height, width = values.shape[2:]
    if height == width == size:
        return values
    scale = size / min(height, width)
    height, width = (max(size, round(side * scale)) for side in (height, width))
    top, left = (height - size) // 2, (width - size) // 2
    scaled = interpolate(values, size=(height, width), mode="bilinear", antialias=True, align_corners=False)
    return scaled[:, :, top : top + size, left : left + size]


def _rounded_as(dtype: torch.dtype, values: Tensor) -> Tensor:
    return values.round().clamp(0, 255).to(dtype) if dtype == torch.uint8 else values
