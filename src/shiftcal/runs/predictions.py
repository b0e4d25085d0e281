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

from shiftcal.core.errors import DataUnavailableError, InvalidInputError
from shiftcal.core.files import DAMAGED_ARCHIVE
from shiftcal.core.seals import opened_sealed, written_sealed


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
    with written_sealed(path) as stream:
        np.savez_compressed(stream, allow_pickle=False, **arrays)


def load_predictions(path: Path) -> Predictions:
    """Read what `save_predictions` wrote.

    Raises:
        DataUnavailableError: there is no such file.
        InvalidInputError: it is damaged or something else.
    """
    try:
        with opened_sealed(path) as stream, np.load(stream, allow_pickle=False) as arrays:
            examples = None
            if "example_rows" in arrays:
                examples = ExampleImages(arrays["example_rows"], arrays["example_images"])
            return Predictions(
                ids=arrays["ids"],
                probabilities=arrays["probabilities"],
                density_ratio=arrays["density_ratio"],
                classes=tuple(json.loads(str(arrays["classes"]))),
                labels=arrays.get("labels"),
                examples=examples,
            )
    except FileNotFoundError:
        raise DataUnavailableError(f"no predictions at {str(path)!r}; expected a file of a finished run") from None
    except DAMAGED_ARCHIVE as error:
        raise InvalidInputError(f"{str(path)!r} is not a predictions file of shiftcal: {error}") from error


def plain_classes(classes: tuple[Hashable, ...]) -> list[str | int | float | bool]:
    """Class labels as values that JSON can hold; labels of other types become their text."""
    plain: list[str | int | float | bool] = []
    for label in classes:
        value = label.item() if isinstance(label, np.generic) else label
        plain.append(value if isinstance(value, (str, int, float, bool)) else str(value))
    return plain
