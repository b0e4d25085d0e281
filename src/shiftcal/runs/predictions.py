"""Predictions on disk: the seam between training and everything that comes after it.

Metrics, figures and reports are made from these files alone and need neither the model nor the data.
"""

from __future__ import annotations

import json
from collections.abc import Hashable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shiftcal.core.array_reading import ArrayFile, open_own_file, write_own_file
from shiftcal.core.errors import InvalidInputError, shown

# Of a sum of probabilities, whatever float they were computed in.
_ROUNDING = 1e-3


@dataclass(frozen=True)
class ExampleImages:
    """Pictures of a few rows, kept so that a report can show them without the data."""

    rows: NDArray[np.int64]
    """Rows of the predictions that the pictures belong to."""
    images: NDArray[np.uint8]
    """(len(rows), height, width, channels)"""


@dataclass(frozen=True)
class Predictions:
    """What a model says of each input of one domain."""

    ids: NDArray[np.str_]
    """(N,) path or row number of each input."""
    probabilities: NDArray[np.float64]
    """(N, C) rows sum to 1."""
    density_ratio: NDArray[np.float64]
    """(N,) estimated P_source(x) / P_target(x); 1 where no shift is modelled."""
    classes: tuple[Hashable, ...]
    labels: NDArray[np.int64] | None = None
    """(N,) positions in `classes`, where labels were given for evaluation."""
    examples: ExampleImages | None = None

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def predicted(self) -> NDArray[np.int64]:
        """(N,) position in `classes` of the most probable class."""
        return np.asarray(self.probabilities.argmax(axis=1), dtype=np.int64)

    @property
    def confidence(self) -> NDArray[np.float64]:
        """(N,) probability of the predicted class."""
        return np.asarray(self.probabilities.max(axis=1))


def save_predictions(predictions: Predictions, path: Path) -> None:
    """Write a `.npz` that `load_predictions` reads back without loss."""
    arrays: dict[str, NDArray[Any]] = {
        "ids": predictions.ids,
        "probabilities": predictions.probabilities,
        "density_ratio": predictions.density_ratio,
        "classes": np.array(json.dumps(plain_classes(predictions.classes))),
    }
    if predictions.labels is not None:
        arrays["labels"] = predictions.labels
    if predictions.examples is not None:
        arrays["example_rows"] = predictions.examples.rows
        arrays["example_images"] = predictions.examples.images
    write_own_file(path, arrays)


def load_predictions(path: Path) -> Predictions:
    """Read what `save_predictions` wrote.

    Raises:
        DataUnavailableError: there is no such file.
        InvalidInputError: it is damaged or something else.
    """
    with open_own_file(path, "predictions") as file:
        classes = _checked_classes(file.read_json("classes"))
        ids = np.asarray(file.read("ids", "U", None))
        return Predictions(
            ids=ids,
            probabilities=_checked_probabilities(file.read("probabilities", "f", len(ids), len(classes))),
            density_ratio=_checked_range(file.read("density_ratio", "f", len(ids)), "density ratios", 0, np.inf),
            classes=classes,
            labels=_checked_range(file.read("labels", "i", len(ids)), "labels", 0, len(classes) - 1)
            if "labels" in file
            else None,
            examples=_examples(file, len(ids)) if "example_rows" in file else None,
        )


def _examples(file: ArrayFile, num_rows: int) -> ExampleImages:
    rows = _checked_range(file.read("example_rows", "i", None), "rows of examples", 0, num_rows - 1)
    return ExampleImages(rows, file.read("example_images", "u", len(rows), None, None, None))


def _checked_classes(classes: object) -> tuple[Hashable, ...]:
    if not isinstance(classes, list) or not all(isinstance(label, (str, int, float, bool)) for label in classes):
        raise InvalidInputError(f"expected a list of class labels, got {shown(classes)}")
    return tuple(classes)


def _checked_probabilities(probabilities: NDArray[np.float64]) -> NDArray[np.float64]:
    _checked_range(probabilities, "probabilities", 0, 1 + _ROUNDING)
    if not (np.abs(probabilities.sum(axis=1) - 1) <= _ROUNDING).all():
        raise InvalidInputError("expected rows of probabilities that sum to 1")
    return probabilities


def _checked_range(values: NDArray[Any], what: str, low: float, high: float) -> NDArray[Any]:
    if not ((values >= low) & (values <= high)).all():
        raise InvalidInputError(f"expected {what} from {low} to {high}, got others")
    return values


def plain_classes(classes: tuple[Hashable, ...]) -> list[str | int | float | bool]:
    """Class labels as values that JSON can hold; labels of other types become their text."""
    plain: list[str | int | float | bool] = []
    for label in classes:
        value = label.item() if isinstance(label, np.generic) else label
        plain.append(value if isinstance(value, (str, int, float, bool)) else str(value))
    return plain
