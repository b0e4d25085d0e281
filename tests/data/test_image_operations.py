from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from PIL import Image, ImageEnhance, ImageOps
from torch import Tensor

from shiftcal.data.image_operations import FILL, OPERATIONS, cut_out, flip_and_shift

SHAPES = [(1, 8, 8), (3, 8, 8), (1, 28, 28), (3, 32, 32), (3, 13, 17)]
TWO_ROUNDINGS = 1.501 / 255
"""Pillow rounds what it blends with to the nearest level, then cuts the result to the level below."""

GREY = 127
"""A level that `make_images` never has, so that Pillow's fill can be told from the image."""

names = pytest.mark.parametrize("name", OPERATIONS)


def make_images(shape: tuple[int, ...], num_images: int = 5) -> Tensor:
    """Smooth-ish images of whole levels, of different contrast, none of them at the grey that fills."""
    generator = torch.Generator().manual_seed(sum(shape))
    levels = torch.randint(0, 256, (num_images, *shape), generator=generator)
    levels = levels * torch.linspace(0.4, 1, num_images).view(-1, 1, 1, 1) + 3
    levels = levels.clamp(0, 255).floor()
    return levels.where(levels != GREY, GREY + 1) / 255


def make_magnitudes(name: str, num_images: int = 5) -> Tensor:
    return torch.linspace(OPERATIONS[name].low, OPERATIONS[name].high, num_images)


def apply(name: str, images: Tensor, magnitude: Tensor | float) -> Tensor:
    magnitudes = torch.as_tensor(magnitude, dtype=torch.float32).expand(len(images))
    return OPERATIONS[name].apply(images, magnitudes)


def with_pillow(images: Tensor, magnitudes: Tensor, function: Callable[[Image.Image, float], Image.Image]) -> Tensor:
    """The same by Pillow, one image after the other."""
    results = []
    for image, magnitude in zip(images, magnitudes, strict=True):
        array = (image * 255).round().byte().permute(1, 2, 0).numpy()
        pillow_image = Image.fromarray(array[..., 0] if len(image) == 1 else array)
        result = np.array(function(pillow_image, float(magnitude)))
        results.append(torch.from_numpy(result).view(*array.shape).permute(2, 0, 1).float() / 255)
    return torch.stack(results)


def fill_of(image: Image.Image) -> int | tuple[int, ...]:
    return GREY if image.mode == "L" else (GREY,) * 3


def affine_by_pillow(image: Image.Image, *coefficients: float) -> Image.Image:
    return image.transform(image.size, Image.Transform.AFFINE, coefficients, fillcolor=fill_of(image))


COLOR_REFERENCES: dict[str, Callable[[Image.Image, float], Image.Image]] = {
    "auto_contrast": lambda image, _: ImageOps.autocontrast(image),
    "brightness": lambda image, factor: ImageEnhance.Brightness(image).enhance(factor),
    "color": lambda image, factor: ImageEnhance.Color(image).enhance(factor),
    "contrast": lambda image, factor: ImageEnhance.Contrast(image).enhance(factor),
    "sharpness": lambda image, factor: ImageEnhance.Sharpness(image).enhance(factor),
}
EXACT_REFERENCES: dict[str, Callable[[Image.Image, float], Image.Image]] = {
    "equalize": lambda image, _: ImageOps.equalize(image),
    "identity": lambda image, _: image,
    "posterize": lambda image, bits: ImageOps.posterize(image, round(bits)),
    "solarize": lambda image, threshold: ImageOps.solarize(image, int(np.ceil(threshold * 255))),
}
AFFINE_REFERENCES: dict[str, Callable[[Image.Image, float], Image.Image]] = {
    "rotate": lambda image, degrees: image.rotate(degrees, fillcolor=fill_of(image)),
    "shear_x": lambda image, shear: affine_by_pillow(image, 1, shear, 0, 0, 1, 0),
    "shear_y": lambda image, shear: affine_by_pillow(image, 1, 0, 0, shear, 1, 0),
    "translate_x": lambda image, part: affine_by_pillow(image, 1, 0, int(part * image.width), 0, 1, 0),
    "translate_y": lambda image, part: affine_by_pillow(image, 1, 0, 0, 0, 1, int(part * image.height)),
}


def test_every_operation_has_a_reference() -> None:
    assert set(OPERATIONS) == set(COLOR_REFERENCES) | set(EXACT_REFERENCES) | set(AFFINE_REFERENCES)
    assert len(OPERATIONS) == 14


@pytest.mark.parametrize("name", COLOR_REFERENCES)
def test_color_operations_are_pillows_but_for_rounding(name: str) -> None:
    for shape in SHAPES:
        images, magnitudes = make_images(shape), make_magnitudes(name)
        expected = with_pillow(images, magnitudes, COLOR_REFERENCES[name])
        torch.testing.assert_close(apply(name, images, magnitudes), expected, atol=TWO_ROUNDINGS, rtol=0)


@pytest.mark.parametrize("name", EXACT_REFERENCES)
def test_operations_on_levels_are_pillows(name: str) -> None:
    for shape in SHAPES:
        images, magnitudes = make_images(shape), make_magnitudes(name)
        expected = with_pillow(images, magnitudes, EXACT_REFERENCES[name])
        torch.testing.assert_close(apply(name, images, magnitudes), expected, atol=1e-6, rtol=0)


@pytest.mark.parametrize("name", AFFINE_REFERENCES)
def test_affine_operations_are_pillows(name: str) -> None:
    for shape in SHAPES:
        images, magnitudes = make_images(shape, 11), make_magnitudes(name, 11)
        expected = with_pillow(images, magnitudes, AFFINE_REFERENCES[name])
        expected = expected.where(expected != GREY / 255, FILL)
        torch.testing.assert_close(apply(name, images, magnitudes), expected, atol=1e-6, rtol=0)


def test_equalize_flattens_large_images_and_keeps_small_ones() -> None:
    large, small = make_images((3, 32, 32)), make_images((3, 8, 8))
    assert (apply("equalize", large, 0.0) != large).any()
    torch.testing.assert_close(apply("equalize", small, 0.0), small, atol=0, rtol=0)


@pytest.mark.parametrize("name", ["auto_contrast", "equalize"])
def test_constant_images_stay_as_they_are(name: str) -> None:
    images = torch.tensor([0.0, 0.3, 1.0]).view(3, 1, 1, 1).expand(3, 3, 28, 28)
    assert torch.equal(apply(name, images, 0.0), images)


@pytest.mark.parametrize(
    ("name", "magnitude"),
    [(name, 1.0) for name in ("brightness", "color", "contrast", "sharpness")]
    + [(name, 0.0) for name in ("identity", *AFFINE_REFERENCES)]
    + [("posterize", 8.0), ("solarize", 1.01)],
)
def test_identity_magnitudes(name: str, magnitude: float) -> None:
    for shape in SHAPES:
        images = make_images(shape)
        torch.testing.assert_close(apply(name, images, magnitude), images, atol=1e-7, rtol=0)


def test_limits_of_enhancements() -> None:
    images = make_images((3, 32, 32))
    assert torch.equal(apply("brightness", images, 0.0), torch.zeros_like(images))
    flat = apply("contrast", images, 0.0)
    assert torch.equal(flat, flat[:, :1, :1, :1].expand_as(flat))
    grey = apply("color", images, 0.0)
    assert torch.equal(grey[:, 0], grey[:, 1])
    assert torch.equal(grey[:, 0], grey[:, 2])


def test_color_is_the_identity_for_grey_images() -> None:
    images = make_images((1, 28, 28))
    assert torch.equal(apply("color", images, 0.05), images)


def test_solarize_at_zero_inverts() -> None:
    images = make_images((3, 8, 8))
    assert torch.equal(apply("solarize", images, 0.0), 1 - images)


@pytest.mark.parametrize(("name", "dimension"), [("translate_x", 3), ("translate_y", 2)])
@pytest.mark.parametrize("pixels", [-3, -1, 2])
def test_translation_is_a_roll_with_fill(name: str, dimension: int, pixels: int) -> None:
    images = make_images((3, 32, 32))
    expected = images.roll(-pixels, dimension)
    uncovered = range(32 - pixels, 32) if pixels > 0 else range(-pixels)
    expected.index_fill_(dimension, torch.tensor(list(uncovered)), FILL)
    assert torch.equal(apply(name, images, pixels / 32), expected)


@pytest.mark.parametrize("size", [8, 13])
@pytest.mark.parametrize("quarters", [1, 2, 3])
def test_quarter_turns_are_exact(size: int, quarters: int) -> None:
    images = make_images((3, size, size))
    assert torch.equal(
        OPERATIONS["rotate"].apply(images, torch.full((5,), 90.0 * quarters)), images.rot90(quarters, (2, 3))
    )


@names
def test_shape_dtype_and_range_are_kept(name: str) -> None:
    for shape in SHAPES:
        images = torch.rand((6, *shape), generator=torch.Generator().manual_seed(0))
        images[0], images[1] = 0, 1
        before = images.clone()
        changed = apply(name, images, make_magnitudes(name, 6))
        assert changed.shape == images.shape
        assert changed.dtype == torch.float32
        assert changed.min() >= 0
        assert changed.max() <= 1
        assert torch.equal(images, before)


@names
def test_an_image_does_not_depend_on_the_others(name: str) -> None:
    for shape in SHAPES:
        images = torch.rand((5, *shape), generator=torch.Generator().manual_seed(0))
        magnitudes = make_magnitudes(name)
        alone = [apply(name, images[row : row + 1], magnitudes[row]) for row in range(5)]
        assert torch.equal(apply(name, images, magnitudes), torch.cat(alone))


@names
def test_no_images_and_tiny_images(name: str) -> None:
    for shape in [(0, 3, 8, 8), (2, 1, 1, 1), (2, 3, 2, 5)]:
        images = torch.full(shape, 0.2)
        assert apply(name, images, make_magnitudes(name, shape[0])).shape == shape


@pytest.mark.parametrize("shift", [(0, 0), (1, -1), (-3, 2), (3, 3)])
@pytest.mark.parametrize("flip", [False, True])
def test_flip_and_shift_is_a_crop_of_the_padded_image(shift: tuple[int, int], flip: bool) -> None:
    images = make_images((3, 28, 32))
    rows, columns = (torch.full((5,), value) for value in shift)
    padded = torch.nn.functional.pad(images.flip(3) if flip else images, (4, 4, 4, 4), mode="reflect")
    expected = padded[:, :, 4 + shift[0] : 32 + shift[0], 4 + shift[1] : 36 + shift[1]]
    assert torch.equal(flip_and_shift(images, torch.full((5,), flip), rows, columns), expected)


def test_flip_and_shift_are_per_image() -> None:
    images = make_images((1, 8, 8), 2)
    moved = flip_and_shift(images, torch.tensor([False, True]), torch.tensor([0, 0]), torch.tensor([0, 0]))
    assert torch.equal(moved, torch.stack([images[0], images[1].flip(2)]))


def test_cut_out_paints_a_square_and_nothing_else() -> None:
    images = make_images((3, 8, 8), 2)
    cut = cut_out(images, torch.tensor([4, 0]), torch.tensor([3, 7]), 4)
    expected = images.clone()
    expected[0, :, 2:6, 1:5] = FILL
    expected[1, :, :2, 5:] = FILL
    assert torch.equal(cut, expected)
    assert torch.equal(cut_out(images, torch.tensor([4, 0]), torch.tensor([3, 7]), 0), images)
