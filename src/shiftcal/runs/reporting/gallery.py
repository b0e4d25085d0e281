"""Pictures of the target inputs that look most, and least, like the source."""

from __future__ import annotations

import base64
import io
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from shiftcal.runs.predictions import Predictions

# Wide enough for a phone's full row of three; larger pictures are scaled down to it.
MAX_SIDE = 128
# Up to this size a picture is shown enlarged, pixel by pixel.
PIXEL_SIDE = 64


class Picture(NamedTuple):
    """One example with what the model says of it."""

    data_uri: str
    pixelated: bool
    identity: str
    predicted: str
    confidence: float
    density_ratio: float
    truth: str | None
    """The true class, where labels are known."""


class Gallery(NamedTuple):
    """The two ends of the examples, ranked by density ratio (by confidence where no shift is modelled)."""

    ranked_by_ratio: bool
    highest: tuple[Picture, ...]
    lowest: tuple[Picture, ...]


def gallery(predictions: Predictions, *, ranked_by_ratio: bool, per_end: int = 8) -> Gallery | None:
    """The examples at both ends, the outermost first; no example is shown twice; None without examples."""
    examples = predictions.examples
    if examples is None or len(examples.rows) == 0:
        return None
    key = predictions.density_ratio if ranked_by_ratio else predictions.confidence
    # Stable, so that equal keys keep the order of the data.
    order = np.argsort(key[examples.rows], kind="stable")
    num_lowest = min(per_end, len(order) // 2)
    num_highest = min(per_end, len(order) - num_lowest)
    lowest, highest = order[:num_lowest], order[::-1][:num_highest]
    return Gallery(
        ranked_by_ratio,
        tuple(_picture(predictions, int(examples.rows[index]), examples.images[index]) for index in highest),
        tuple(_picture(predictions, int(examples.rows[index]), examples.images[index]) for index in lowest),
    )


def _picture(predictions: Predictions, row: int, pixels: NDArray[np.uint8]) -> Picture:
    labels = predictions.labels
    return Picture(
        data_uri=picture_uri(pixels),
        pixelated=max(pixels.shape[:2]) <= PIXEL_SIDE,
        identity=str(predictions.ids[row]),
        predicted=str(predictions.classes[predictions.probabilities[row].argmax()]),
        confidence=float(predictions.probabilities[row].max()),
        density_ratio=float(predictions.density_ratio[row]),
        truth=None if labels is None else str(predictions.classes[labels[row]]),
    )


def picture_uri(pixels: NDArray[np.uint8]) -> str:
    """(height, width, channels) as a `data:` address: PNG for small pictures, JPEG for photographs."""
    image = Image.fromarray(pixels[..., 0] if pixels.shape[-1] == 1 else pixels).convert("RGB")
    small = max(image.size) <= PIXEL_SIDE
    image.thumbnail((MAX_SIDE, MAX_SIDE))
    stream = io.BytesIO()
    image.save(stream, "PNG" if small else "JPEG", optimize=True)
    kind = "png" if small else "jpeg"
    return f"data:image/{kind};base64," + base64.b64encode(stream.getvalue()).decode("ascii")
