"""Predictions that every metric is tried on: sizes, ties, confidences on bin edges, saturation."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

GRID = {
    "one sample": (1, 3, "smooth"),
    "one class": (7, 1, "smooth"),
    "fewer samples than bins": (9, 4, "smooth"),
    "two classes": (400, 2, "smooth"),
    "ten classes": (500, 10, "smooth"),
    "many classes": (60, 200, "smooth"),
    "ties on bin edges": (300, 5, "ties"),
    "saturated": (300, 4, "saturated"),
    "one-hot": (50, 3, "one-hot"),
}


def make_predictions(num_samples: int, num_classes: int, kind: str) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    rng = np.random.default_rng(num_samples * 31 + num_classes)
    labels = rng.integers(0, num_classes, num_samples)
    if kind == "one-hot":
        return np.eye(num_classes)[rng.integers(0, num_classes, num_samples)], labels
    if kind == "ties":
        return rng.multinomial(15, np.full(num_classes, 1 / num_classes), num_samples) / 15, labels
    logits = rng.normal(size=(num_samples, num_classes)) * (20 if kind == "saturated" else 2)
    logits[np.arange(num_samples), labels] += 1.5
    probabilities = np.exp(logits - logits.max(axis=1, keepdims=True))
    return probabilities / probabilities.sum(axis=1, keepdims=True), labels


@pytest.fixture(params=list(GRID.values()), ids=list(GRID))
def predictions(request: pytest.FixtureRequest) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    num_samples, num_classes, kind = request.param
    return make_predictions(num_samples, num_classes, kind)
