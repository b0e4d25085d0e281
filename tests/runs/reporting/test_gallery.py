import base64
import io
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from shiftcal.runs.predictions import ExampleImages, Predictions
from shiftcal.runs.reporting.gallery import MAX_SIDE, gallery, picture_uri


def with_examples(predictions: Predictions, rows: list[int]) -> Predictions:
    images = np.zeros((len(rows), 4, 4, 1), dtype=np.uint8)
    return replace(predictions, examples=ExampleImages(np.array(rows, dtype=np.int64), images))


def test_both_ends_by_ratio(binary: Callable[..., Predictions]) -> None:
    predictions = binary([0.9, 0.2, 0.7, 0.6], [0, 0, 0, 1], ratio=[1.0, 3.0, 2.0, 0.5])
    shown = gallery(with_examples(predictions, [3, 1, 2]), ranked_by_ratio=True, per_end=1)
    assert shown is not None
    (highest,), (lowest,) = shown.highest, shown.lowest
    assert (highest.identity, highest.predicted, highest.truth) == ("input 1", "dog", "cat")
    assert (highest.confidence, highest.density_ratio) == pytest.approx((0.8, 3.0))
    assert (lowest.identity, lowest.density_ratio) == ("input 3", 0.5)


def test_by_confidence_and_without_labels(binary: Callable[..., Predictions]) -> None:
    shown = gallery(with_examples(binary([0.6, 0.9]), [0, 1]), ranked_by_ratio=False)
    assert shown is not None
    assert [picture.identity for picture in (*shown.highest, *shown.lowest)] == ["input 1", "input 0"]
    assert shown.highest[0].truth is None


def test_no_example_is_shown_twice(binary: Callable[..., Predictions]) -> None:
    shown = gallery(with_examples(binary([0.5] * 3, ratio=[1, 2, 3]), [0, 1, 2]), ranked_by_ratio=True)
    assert shown is not None
    assert (len(shown.highest), len(shown.lowest)) == (2, 1)


def test_no_examples(binary: Callable[..., Predictions]) -> None:
    assert gallery(binary([0.5]), ranked_by_ratio=True) is None
    assert gallery(with_examples(binary([0.5]), []), ranked_by_ratio=True) is None


@pytest.mark.parametrize(
    ("shape", "kind", "size"),
    [
        ((28, 20, 1), "png", (20, 28)),
        ((8, 8, 3), "png", (8, 8)),
        ((300, 200, 4), "jpeg", (85, MAX_SIDE)),
    ],
)
def test_pictures_are_small_and_of_the_right_kind(shape: tuple[int, ...], kind: str, size: tuple[int, int]) -> None:
    head, body = picture_uri(np.zeros(shape, dtype=np.uint8)).split(",")
    assert head == f"data:image/{kind};base64"
    assert Image.open(io.BytesIO(base64.b64decode(body))).size == size
