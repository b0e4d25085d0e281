"""Predictions on disk: the seam between training and everything that comes after it.

Metrics, figures and reports are made from these files alone and need neither the model nor the data.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shiftcal.errors import DataUnavailableError, InvalidInputError, MissingDependencyError
from shiftcal.files import DAMAGED_ARCHIVE, written_whole


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
    with written_whole(path) as temporary, temporary.open("wb") as stream:
        np.savez_compressed(stream, allow_pickle=False, **arrays)


def load_predictions(path: Path) -> Predictions:
    """Read what `save_predictions` wrote.

    Raises:
        DataUnavailableError: there is no such file.
        InvalidInputError: it is damaged or something else.
    """
    try:
        # Opened here: of a damaged archive NumPy would leave the file open.
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as arrays:
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


def export_predictions(predictions: Predictions, path: Path) -> None:
    """Write a table for other programs, in the format of the suffix: csv, npz or parquet.

    One row an input: id, predicted class, confidence, one probability per class, density ratio.
    """
    check_export_path(path)
    _EXPORTS[path.suffix.lower()](predictions, path)


def check_export_path(path: Path) -> None:
    """Raise `InvalidInputError` if the suffix names no format."""
    if path.suffix.lower() not in _EXPORTS:
        raise InvalidInputError(f"expected an output file that ends in {' or '.join(_EXPORTS)}, got {path.name!r}")


def _columns(predictions: Predictions) -> Iterator[tuple[str, NDArray[Any]]]:
    names = np.array(plain_classes(predictions.classes))
    yield "id", predictions.ids
    yield "predicted_class", names[predictions.predicted]
    yield "confidence", predictions.confidence
    for index, name in enumerate(names):
        yield f"probability_{name}", predictions.probabilities[:, index]
    yield "density_ratio", predictions.density_ratio


def _export_csv(predictions: Predictions, path: Path) -> None:
    columns = dict(_columns(predictions))
    with written_whole(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(columns)
        writer.writerows(zip(*(column.tolist() for column in columns.values()), strict=True))


def _export_npz(predictions: Predictions, path: Path) -> None:
    names = np.array(plain_classes(predictions.classes))
    with written_whole(path) as temporary, temporary.open("wb") as stream:
        np.savez_compressed(
            stream,
            allow_pickle=False,
            id=predictions.ids,
            predicted_class=names[predictions.predicted],
            probabilities=predictions.probabilities,
            density_ratio=predictions.density_ratio,
            classes=names,
        )


def _export_parquet(predictions: Predictions, path: Path) -> None:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise MissingDependencyError("writing parquet", "pyarrow", "parquet") from None
    with written_whole(path) as temporary:
        pyarrow.parquet.write_table(pyarrow.table(dict(_columns(predictions))), temporary)


_EXPORTS = {".csv": _export_csv, ".npz": _export_npz, ".parquet": _export_parquet}
