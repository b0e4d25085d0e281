"""Size and channels of images, and images in memory brought to them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import interpolate

from shiftcal.core.errors import InvalidInputError, shown
from shiftcal.core.limits import IMAGE_BYTES

LONGEST = 4
"""Times its shorter side that an image may be long before its ends are cut off unscaled."""
_LARGEST_SIZE = 4096


def check_image_size(size: int) -> None:
    """Raise `InvalidInputError` unless it is a side that images can be brought to."""
    if not 1 <= size <= _LARGEST_SIZE:
        raise InvalidInputError(
            f"image_size must be at least 1 and at most {_LARGEST_SIZE:,} pixels. Got {shown(size)}."
        )


@dataclass(frozen=True)
class ImageFormat:
    """Size and channels (1 grey, 3 RGB) that all images of a problem are brought to."""

    size: int
    channels: int

    def __post_init__(self) -> None:
        check_image_size(self.size)

    @property
    def shape(self) -> tuple[int, int, int]:
        """(channels, height, width)."""
        return (self.channels, self.size, self.size)


def centre_part(side: int, shorter_side: int) -> tuple[int, int]:
    """Start and length of the part of a side that is scaled at all: far ends are cut off anyway."""
    length = min(side, LONGEST * shorter_side)
    return (side - length) // 2, length


# Bytes of the float copy that interpolation needs, and so rows that are converted at once.
_BYTES_AT_ONCE = 2**28
# Weights of red, green and blue in the grey value (ITU-R 601), as Pillow's conversion has them.
_LUMA = (0.299, 0.587, 0.114)


def convert_images(values: Tensor, image_format: ImageFormat) -> Tensor:
    """Images (N, C, H, W) in the given size and channels, of the dtype that they have.

    As for files, the shorter side is scaled to the size and the centre kept. Grey becomes RGB without a copy.
    """
    channels = min(values.shape[1], image_format.channels)
    if (channels, image_format.size, image_format.size) != tuple(values.shape[1:]):
        for dimension in (2, 3):
            values = values.narrow(dimension, *centre_part(values.shape[dimension], min(values.shape[2:])))
        shape = (len(values), channels, image_format.size, image_format.size)
        IMAGE_BYTES.check(math.prod(shape) * values.element_size(), f"{len(values):,} images of size {shape[2]}")
        converted = values.new_empty(shape)
        most_pixels = max(math.prod(values.shape[2:]), LONGEST * image_format.size**2)
        at_once = max(1, _BYTES_AT_ONCE // (4 * values.shape[1] * most_pixels))
        for start in range(0, len(values), at_once):
            part = slice(start, start + at_once)
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
