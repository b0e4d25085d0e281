"""Image files, and the bytes of one, as tensors: only formats that we promise, and never more memory than stated.

Other decoders of Pillow are never reached, whatever a file is called: one of them would start Ghostscript.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import IO

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from shiftcal.core.errors import InvalidInputError
from shiftcal.core.limits import PICTURE_PIXELS
from shiftcal.data.image_formats import ImageFormat, centre_part

PICTURE_FORMATS = ("JPEG", "PNG", "BMP", "WEBP", "TIFF", "PPM", "GIF")

# Pictures of more pixels are decoded one at a time, and JPEGs among them reduced while they are decoded.
_LARGE = 2**24
_ONE_LARGE_PICTURE = threading.Lock()


def picture_mode(source: Path | IO[bytes], name: str | None = None) -> str | None:
    """The pixel format that the header of an image file tells of, None if there is no such header.

    Raises:
        InvalidInputError: more pixels than the limit.
    """
    try:
        with _opened(source, name or str(source)) as picture:
            return picture.mode
    except InvalidInputError:
        raise
    except Exception:  # decoders raise of damaged files whatever they come upon
        return None


def decode_picture(source: Path | IO[bytes], image_format: ImageFormat, *, name: str) -> Tensor:
    """One picture as a float32 tensor (channels, size, size) in [0, 1].

    The shorter side is scaled to the size and the centre kept, so that proportions stay as they are.

    Raises:
        InvalidInputError: it can't be decoded, is of another format, or has more pixels than the limit.
    """
    size, channels = image_format.size, image_format.channels
    mode = "L" if channels == 1 else "RGB"
    try:
        with _opened(source, name) as picture:
            is_large = picture.width * picture.height > _LARGE
            with _ONE_LARGE_PICTURE if is_large else nullcontext():
                if is_large:
                    picture.draft(None, (4 * size, 4 * size))
                # A conversion to the mode that it has would be a second copy.
                pixels = _centre(picture if picture.mode == mode else picture.convert(mode), size)
                picture.close()  # its pixels too, which else wait for the garbage collector
    except InvalidInputError:
        raise
    except Exception as error:  # as above
        raise InvalidInputError(
            f"can't decode the image {name!r}: {error or type(error).__name__}. "
            "Remove the file or replace it by a readable image."
        ) from error
    values = torch.from_numpy(np.array(pixels, dtype=np.float32) / 255)
    return values.reshape(size, size, channels).permute(2, 0, 1).contiguous()


@contextmanager
def _opened(source: Path | IO[bytes], name: str) -> Iterator[Image.Image]:
    try:
        opened = Image.open(source, formats=PICTURE_FORMATS)
    except Image.DecompressionBombError as error:  # a limit of Pillow's own, above ours
        raise InvalidInputError(f"the image {name!r} is refused: {error}") from error
    with opened as picture:
        PICTURE_PIXELS.check(picture.width * picture.height, f"the image {name!r}")
        yield picture


def _centre(image: Image.Image, size: int) -> Image.Image:
    """The centre of an image whose shorter side is scaled to the size."""
    (left, width), (top, height) = (centre_part(side, min(image.size)) for side in image.size)
    if (width, height) != image.size:
        image = image.crop((left, top, left + width, top + height))
    scale = size / min(image.size)
    width, height = (max(size, round(side * scale)) for side in image.size)
    left, top = (width - size) // 2, (height - size) // 2
    return image.resize((width, height), Image.Resampling.BILINEAR).crop((left, top, left + size, top + size))
