"""Image operations of weak and strong views as pure functions: no randomness, every image its own magnitude.

The strong ones are those of FixMatch (Sohn et al., 2020, appendix), of images (N, C, H, W) in [0, 1], C = 1 or 3, and
magnitudes (N,) on the same device. They are Pillow's definitions on [0, 1]
in place of 0...255: where Pillow rounds to whole levels only to store a result, nothing is rounded here (at most one
and a half levels of difference); where whole levels are part of the definition (`equalize`, `posterize`), images
are rounded to 256 levels first. What comes from outside of the image is grey, as in the authors' code.

Sums are over integers and pixels are fetched by integer position, so that the result for an image is the same to
the last bit whatever else is in the batch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import avg_pool2d

FILL = 0.5
"""Grey where an operation has no pixel to show."""

_LEVELS = 256
_FIXED_POINT_BITS = 16


def identity(images: Tensor, _magnitude: Tensor) -> Tensor:
    """The images as they are."""
    return images


def auto_contrast(images: Tensor, _magnitude: Tensor) -> Tensor:
    """Stretch every channel to the full range (`ImageOps.autocontrast`); constant channels stay as they are."""
    darkest, brightest = images.amin((-2, -1), keepdim=True), images.amax((-2, -1), keepdim=True)
    contrast = brightest - darkest
    stretched = (images - darkest) / contrast.where(contrast > 0, 1.0)
    return stretched.clamp(0, 1).where(contrast > 0, images)


def brightness(images: Tensor, magnitude: Tensor) -> Tensor:
    """From black (0) to the image (1), as `ImageEnhance.Brightness`."""
    return _blend(torch.zeros_like(images), images, magnitude)


def color(images: Tensor, magnitude: Tensor) -> Tensor:
    """From grey (0) to the image (1), as `ImageEnhance.Color`; grey images stay as they are."""
    return images if images.shape[1] == 1 else _blend(_luminance(images), images, magnitude)


def contrast(images: Tensor, magnitude: Tensor) -> Tensor:
    """From the mean grey level (0) to the image (1), as `ImageEnhance.Contrast`, which rounds that level too."""
    levels = _to_levels(_luminance(images)).flatten(1)
    mean_level = (levels.sum(1).to(images.dtype) / levels.shape[1] + 0.5).floor()
    return _blend(_per_image(mean_level / (_LEVELS - 1)), images, magnitude)


def sharpness(images: Tensor, magnitude: Tensor) -> Tensor:
    """From the smoothed image (0) to the image (1), as `ImageEnhance.Sharpness`.

    The smoothing kernel is 5/13 in the middle and 1/13 around it; pixels of the border are not smoothed.
    """
    smooth = images.clone()
    if min(images.shape[-2:]) >= 3:
        # 9 times the mean of the neighbourhood is the sum with weight 1 everywhere: 4 are missing in the middle.
        inner = images[..., 1:-1, 1:-1]
        smooth[..., 1:-1, 1:-1] = (9 * avg_pool2d(images, kernel_size=3, stride=1) + 4 * inner) / 13
    return _blend(smooth, images, magnitude)


def equalize(images: Tensor, _magnitude: Tensor) -> Tensor:
    """Make every channel's histogram flat, as `ImageOps.equalize`.

    By that definition a channel of fewer than 255 pixels beside its brightest level stays as it is: 8 x 8 pixels
    are never changed.
    """
    levels = _to_levels(images).flatten(2).flatten(0, 1)
    first_bin = torch.arange(len(levels), device=levels.device).unsqueeze(1) * _LEVELS
    histogram = (levels + first_bin).flatten().bincount(minlength=len(levels) * _LEVELS).view(-1, _LEVELS)
    brightest_count = histogram.gather(1, levels.amax(1, keepdim=True))
    step = (levels.shape[1] - brightest_count) // (_LEVELS - 1)
    darker_count = histogram.cumsum(1) - histogram
    new_levels = ((darker_count + step // 2) // step.clamp(min=1)).clamp(max=_LEVELS - 1)
    equalized = (new_levels.gather(1, levels).to(images.dtype) / (_LEVELS - 1)).view(images.shape)
    return equalized.where((step > 0).view(*images.shape[:2], 1, 1), images)


def posterize(images: Tensor, magnitude: Tensor) -> Tensor:
    """Keep the highest bits of 8, as `ImageOps.posterize`; the magnitude is rounded to a whole number of bits."""
    step = _per_image(2.0 ** (8 - magnitude.round()))
    return (_to_levels(images) / step).floor() * step / (_LEVELS - 1)


def solarize(images: Tensor, magnitude: Tensor) -> Tensor:
    """Invert what is not below the threshold, as `ImageOps.solarize` with `threshold = 255 * magnitude`."""
    return images.where(images < _per_image(magnitude), 1 - images)


def rotation(magnitude: Tensor, height: int, width: int) -> Tensor:
    """Turn counter-clockwise around the centre by degrees, as `Image.rotate`."""
    cosine, sine = torch.deg2rad(magnitude).cos(), torch.deg2rad(magnitude).sin()
    y_centre, x_centre = height / 2, width / 2
    x_offset = x_centre - cosine * x_centre + sine * y_centre
    y_offset = y_centre - sine * x_centre - cosine * y_centre
    return torch.stack([cosine, -sine, x_offset, sine, cosine, y_offset], dim=1)


def shearing_x(magnitude: Tensor, _height: int, _width: int) -> Tensor:
    """Show at (x, y) what was at (x + magnitude * y, y): `Image.transform` with (1, magnitude, 0, 0, 1, 0)."""
    return _identity_with(1, magnitude)


def shearing_y(magnitude: Tensor, _height: int, _width: int) -> Tensor:
    """Show at (x, y) what was at (x, y + magnitude * x): `Image.transform` with (1, 0, 0, magnitude, 1, 0)."""
    return _identity_with(3, magnitude)


def translation_x(magnitude: Tensor, _height: int, width: int) -> Tensor:
    """Show at x what was at x + shift: magnitude is the part of the width, of which whole pixels are kept."""
    return _identity_with(2, (magnitude * width).trunc())


def translation_y(magnitude: Tensor, height: int, _width: int) -> Tensor:
    """Show at y what was at y + shift: magnitude is the part of the height, of which whole pixels are kept."""
    return _identity_with(5, (magnitude * height).trunc())


class Operation(NamedTuple):
    """An operation, by what it makes of images or by what it moves them by, and the range of its magnitude."""

    low: float
    high: float
    of_images: Callable[[Tensor, Tensor], Tensor] | None = None
    """Of images and magnitudes (N,)."""
    matrices: Callable[[Tensor, int, int], Tensor] | None = None
    """(N, 6) for `transform`, of magnitudes, height and width: one transformation does for several operations."""

    def apply(self, images: Tensor, magnitude: Tensor) -> Tensor:
        """The images changed, each by its own magnitude (N,)."""
        if self.matrices is not None:
            return transform(images, self.matrices(magnitude, *images.shape[-2:]))
        assert self.of_images is not None
        return self.of_images(images, magnitude)


OPERATIONS: dict[str, Operation] = {
    "auto_contrast": Operation(0.0, 0.0, auto_contrast),
    "brightness": Operation(0.05, 0.95, brightness),
    "color": Operation(0.05, 0.95, color),
    "contrast": Operation(0.05, 0.95, contrast),
    "equalize": Operation(0.0, 0.0, equalize),
    "identity": Operation(0.0, 0.0, identity),
    "posterize": Operation(4.0, 8.0, posterize),
    "rotate": Operation(-30.0, 30.0, matrices=rotation),
    "sharpness": Operation(0.05, 0.95, sharpness),
    "shear_x": Operation(-0.3, 0.3, matrices=shearing_x),
    "shear_y": Operation(-0.3, 0.3, matrices=shearing_y),
    "solarize": Operation(0.0, 1.0, solarize),
    "translate_x": Operation(-0.3, 0.3, matrices=translation_x),
    "translate_y": Operation(-0.3, 0.3, matrices=translation_y),
}


def transform(images: Tensor, matrices: Tensor) -> Tensor:
    """`Image.transform` by affine matrices (N, 6), nearest pixel: shows at (x, y) what was at (a x + b y + c, ...).

    Like Pillow, it reckons in integers of 1/65536 pixel from the middle of each pixel.
    """
    height, width = images.shape[-2:]
    matrix = matrices.view(-1, 2, 3)
    offset = matrix[..., 2] + 0.5 * matrix[..., 0] + 0.5 * matrix[..., 1]
    fixed = (torch.stack([matrix[..., 0], matrix[..., 1], offset]) * 2**_FIXED_POINT_BITS + 0.5).floor().long()
    per_x, per_y, start = fixed.unsqueeze(-1).unsqueeze(-1)
    x, y = torch.arange(width, device=images.device), torch.arange(height, device=images.device).unsqueeze(1)
    columns, rows = ((per_x * x + per_y * y + start) >> _FIXED_POINT_BITS).unbind(1)
    inside = (columns >= 0) & (columns < width) & (rows >= 0) & (rows < height)
    picked = _pick_pixels(images, rows.clamp(0, height - 1), columns.clamp(0, width - 1))
    return picked.where(inside.unsqueeze(1), FILL)


def flip_and_shift(images: Tensor, flip: Tensor, row_shift: Tensor, column_shift: Tensor) -> Tensor:
    """Mirror the images where `flip` (N,) is true, then show at (row, column) what is whole shifts (N,) further.

    Beyond the border comes the reflection of the image, so a shift has to be smaller than the side.
    """
    height, width = images.shape[-2:]
    rows = _reflect(torch.arange(height, device=images.device) + row_shift.unsqueeze(1), height)
    columns = _reflect(torch.arange(width, device=images.device) + column_shift.unsqueeze(1), width)
    columns = torch.where(flip.unsqueeze(1), width - 1 - columns, columns)
    return _pick_pixels(images, rows.unsqueeze(2), columns.unsqueeze(1))


def cut_out(images: Tensor, row: Tensor, column: Tensor, size: int) -> Tensor:
    """Paint a grey square around (row, column), both (N,); what sticks out of the image is cut off."""
    rows = torch.arange(images.shape[-2], device=images.device) - (row.unsqueeze(1) - size // 2)
    columns = torch.arange(images.shape[-1], device=images.device) - (column.unsqueeze(1) - size // 2)
    in_rows, in_columns = (rows >= 0) & (rows < size), (columns >= 0) & (columns < size)
    square = in_rows.unsqueeze(2) & in_columns.unsqueeze(1)
    return torch.where(square.unsqueeze(1), FILL, images)


def _per_image(values: Tensor) -> Tensor:
    return values.view(-1, 1, 1, 1)


def _to_levels(images: Tensor) -> Tensor:
    return (images * (_LEVELS - 1)).round().long()


def _luminance(images: Tensor) -> Tensor:
    """The grey image (N, 1, H, W) by the weights of ITU-R 601, as `Image.convert("L")`."""
    if images.shape[1] == 1:
        return images
    red, green, blue = images.unbind(1)
    return (0.299 * red + 0.587 * green + 0.114 * blue).unsqueeze(1)


def _blend(degenerate: Tensor, images: Tensor, factor: Tensor) -> Tensor:
    factor = _per_image(factor)
    return (degenerate * (1 - factor) + images * factor).clamp(0, 1)


def _identity_with(entry: int, values: Tensor) -> Tensor:
    """Matrices (N, 6) that change nothing but by one entry (N,)."""
    one, zero = torch.ones_like(values), torch.zeros_like(values)
    entries = [one, zero, zero, zero, one, zero]
    entries[entry] = values
    return torch.stack(entries, dim=1)


def _pick_pixels(images: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """The pixels at `rows` and `columns`, which together give integers (N, H, W), of every channel."""
    positions = (rows * images.shape[-1] + columns).flatten(1).unsqueeze(1)
    return images.flatten(2).gather(2, positions.expand(-1, images.shape[1], -1)).view(images.shape)


def _reflect(positions: Tensor, size: int) -> Tensor:
    return (size - 1) - ((size - 1) - positions.abs()).abs()
