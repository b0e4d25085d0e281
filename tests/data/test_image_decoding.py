"""Pictures: only formats that are promised, within the limits, and without memory that the result has no use for."""

import io
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import EpsImagePlugin, Image, features

from shiftcal.core.errors import InvalidInputError
from shiftcal.data import image_decoding
from shiftcal.data.image_decoding import PICTURE_FORMATS, decode_picture, picture_mode
from shiftcal.data.image_files import IMAGE_SUFFIXES, unlabelled_folder_domain
from shiftcal.data.image_formats import ImageFormat, convert_images


def encoded(pixels: np.ndarray[tuple[int, ...], np.dtype[np.uint8]], kind: str = "PNG") -> io.BytesIO:
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, kind)
    stream.seek(0)
    return stream


def png_that_claims(width: int, height: int) -> bytes:
    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    parts = (
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)),
        (b"IDAT", zlib.compress(b"\0")),
        (b"IEND", b""),
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunk(*part) for part in parts)


@pytest.mark.parametrize("suffix", IMAGE_SUFFIXES)
def test_every_suffix_that_is_promised_is_decoded(tmp_path: Path, suffix: str) -> None:
    if suffix == ".webp" and not features.check("webp"):
        pytest.skip("Pillow without WebP")
    grey = suffix == ".pgm"
    pixels = np.full((6, 8) if grey else (6, 8, 3), 200, np.uint8)
    path = tmp_path / f"a{suffix}"
    Image.fromarray(pixels).save(path)
    assert picture_mode(path) is not None
    assert decode_picture(path, ImageFormat(4, 3), name="a").sub(200 / 255).abs().max() < 0.02


def test_an_eps_file_by_another_name_never_reaches_ghostscript(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Image.new("RGB", (4, 4)).save(tmp_path / "a.eps")
    (tmp_path / "a.eps").rename(tmp_path / "a.png")
    monkeypatch.setattr(EpsImagePlugin, "Ghostscript", lambda *_: pytest.fail("Ghostscript was called"))
    assert "EPS" not in PICTURE_FORMATS
    assert picture_mode(tmp_path / "a.png") is None
    with pytest.raises(InvalidInputError, match=r"can't decode the image 'a\.png'"):
        decode_picture(tmp_path / "a.png", ImageFormat(4, 3), name="a.png")


@pytest.mark.parametrize(("width", "height"), [(9_000, 9_000), (60_000, 60_000), (2**31 - 1, 1)])
def test_bombs_are_refused_by_their_header(tmp_path: Path, width: int, height: int) -> None:
    (tmp_path / "a.png").write_bytes(png_that_claims(width, height))
    with pytest.raises(InvalidInputError, match=r"limit"):
        unlabelled_folder_domain(tmp_path, "bombs")
    with pytest.raises(InvalidInputError, match=r"the limit is 48,000,000.*SHIFTCAL_MAX_PIXELS|exceeds limit"):
        decode_picture(tmp_path / "a.png", ImageFormat(4, 3), name="a.png")


@pytest.mark.parametrize("shape", [(60_000, 1), (1, 60_000)])
def test_the_far_ends_of_a_long_picture_are_never_scaled(shape: tuple[int, int]) -> None:
    """1 x 60,000 pixels scaled to a side of 1,024 would be 60 billion."""
    pixels = np.zeros(shape, np.uint8)
    pixels.reshape(-1)[29_990:30_010] = 255
    image_format = ImageFormat(1024, 1)
    assert decode_picture(encoded(pixels), image_format, name="long").min() == 1
    assert convert_images(torch.from_numpy(pixels)[None, None], image_format).min() == 255


def test_large_jpegs_are_reduced_while_they_are_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    ramp = np.linspace(0, 255, 640, dtype=np.uint8)
    pixels = np.broadcast_to(ramp[:, None], (640, 640)).copy()
    whole = decode_picture(encoded(pixels, "JPEG"), ImageFormat(16, 1), name="ramp")
    monkeypatch.setattr(image_decoding, "_LARGE", 1000)
    sizes = []
    resize = Image.Image.resize

    def noted(image: Image.Image, *arguments: Any) -> Image.Image:
        sizes.append(image.size)
        return resize(image, *arguments)

    monkeypatch.setattr(Image.Image, "resize", noted)
    reduced = decode_picture(encoded(pixels, "JPEG"), ImageFormat(16, 1), name="ramp")
    assert sizes == [(80, 80)]
    assert (whole - reduced).abs().max() < 0.01


@pytest.mark.parametrize("cut", [0, 1, 20, 60, 200])
def test_files_that_are_cut_off_are_named(cut: int) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (20, 20, 3), dtype=np.uint8)
    for kind in ("PNG", "JPEG", "BMP", "GIF", "TIFF", "PPM"):
        content = io.BytesIO(encoded(pixels, kind).getvalue()[:cut])
        with pytest.raises(InvalidInputError, match="can't decode the image 'it'"):
            decode_picture(content, ImageFormat(8, 3), name="it")
