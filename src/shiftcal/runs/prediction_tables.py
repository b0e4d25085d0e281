"""Predictions as tables, for other programs and from them: csv, npz or parquet by the suffix of the file.

One row an input: id, predicted_class, confidence, one column probability_<class> per class, density_ratio. To be
read, a table needs the probabilities alone; id and label (the true class) are taken where they are there.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shiftcal.core.csv_writing import write_csv
from shiftcal.core.errors import DataUnavailableError, InvalidInputError, MissingDependencyError
from shiftcal.core.files import DAMAGED_ARCHIVE, written_whole
from shiftcal.runs.predictions import Predictions, load_predictions, plain_classes

_PREFIX = "probability_"
# Probabilities that other programs wrote with few digits do not sum to one exactly.
_ROUNDING = 1e-2


def export_predictions(predictions: Predictions, path: Path, beside: Any = None) -> None:
    """Write a table for other programs, in the format of the suffix: csv, npz or parquet.

    One row an input: id, predicted class, confidence, one probability per class, density ratio. Where the inputs are
    rows of a table, `beside` is its pandas frame: in csv and parquet its columns come first, in place of the id, and
    a column of ours whose name is taken gets `shiftcal_` before it.
    """
    check_export_path(path)
    if beside is None or path.suffix.lower() == ".npz":
        _EXPORTS[path.suffix.lower()](predictions, path)
        return
    own = {name: column for name, column in _columns(predictions) if name != "id"}
    table = beside.assign(**{f"shiftcal_{name}" if name in beside else name: own[name] for name in own})
    with written_whole(path) as temporary:
        if path.suffix.lower() == ".csv":
            table.to_csv(temporary, index=False)
        else:
            table.to_parquet(temporary, index=False)


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
        yield f"{_PREFIX}{name}", predictions.probabilities[:, index]
    yield "density_ratio", predictions.density_ratio


def _export_csv(predictions: Predictions, path: Path) -> None:
    columns = dict(_columns(predictions))
    write_csv(path, list(columns), zip(*(column.tolist() for column in columns.values()), strict=True))


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


def read_prediction_table(path: Path) -> Predictions:
    """Read a table, or the predictions file of a run; probabilities are scaled to a sum of exactly one.

    Raises:
        DataUnavailableError: there is no such file.
        InvalidInputError: it holds no probabilities, or labels that are none of its classes.
    """
    if not path.is_file():
        raise DataUnavailableError(f"no predictions at {str(path)!r}")
    if path.suffix.lower() not in _READERS:
        raise InvalidInputError(f"expected a file that ends in {' or '.join(_READERS)}, got {path.name!r}")
    columns = _READERS[path.suffix.lower()](path)
    if isinstance(columns, Predictions):
        return columns
    names = [name for name in columns if name.startswith(_PREFIX)]
    if len(names) < 2:
        raise InvalidInputError(
            f"{str(path)!r}: expected a column {_PREFIX}<class> for each of two or more classes, got {list(columns)}"
        )
    classes = tuple(name.removeprefix(_PREFIX) for name in names)
    probabilities = _checked_probabilities(np.stack([_numbers(columns[name], name, path) for name in names], 1), path)
    ids = columns.get("id", np.arange(len(probabilities)))
    labels = None
    if "label" in columns:
        labels = _label_numbers([str(label) for label in columns["label"]], classes, path)
    return Predictions(
        ids=np.array([str(name) for name in ids]),
        probabilities=probabilities,
        density_ratio=np.ones(len(probabilities)),
        classes=classes,
        labels=labels,
    )


def _checked_probabilities(values: NDArray[np.float64], path: Path) -> NDArray[np.float64]:
    total = values.sum(axis=1)
    wrong = np.flatnonzero(~((values >= 0).all(axis=1) & (np.abs(total - 1) < _ROUNDING)))
    if len(wrong) or not len(values):
        what = f"row {wrong[0] + 1} is {values[wrong[0]]}" if len(wrong) else "the table is empty"
        raise InvalidInputError(f"{str(path)!r}: expected rows of probabilities that sum to 1; {what}")
    return np.asarray(values / total[:, None])


def _label_numbers(labels: list[str], classes: tuple[str, ...], path: Path) -> NDArray[np.int64]:
    position = {name: number for number, name in enumerate(classes)}
    unknown = next((label for label in labels if label not in position), None)
    if unknown is not None:
        raise InvalidInputError(f"{str(path)!r}: label {unknown!r} has no column {_PREFIX}{unknown}")
    return np.array([position[label] for label in labels], dtype=np.int64)


def _numbers(column: Any, name: str, path: Path) -> NDArray[np.float64]:
    try:
        return np.asarray(column, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(
            f"{str(path)!r}: column {name!r} holds something else than numbers: {error}"
        ) from None


def _read_csv(path: Path) -> Mapping[str, Any]:
    try:
        with path.open(newline="", encoding="utf-8") as stream:
            rows = list(csv.DictReader(stream, strict=True))
    except (UnicodeDecodeError, csv.Error) as error:
        raise InvalidInputError(f"{str(path)!r} is not a csv table: {error}") from error
    return {name: [row[name] for row in rows] for name in (rows[0] if rows else {}) if name is not None}


def _read_npz(path: Path) -> Mapping[str, Any] | Predictions:
    try:
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as arrays:
            if "ids" in arrays:
                return load_predictions(path)
            classes = [str(name) for name in arrays["classes"]]
            columns = {f"{_PREFIX}{name}": arrays["probabilities"][:, i] for i, name in enumerate(classes)}
            return columns | {name: arrays[name] for name in ("id", "label") if name in arrays}
    except DAMAGED_ARCHIVE as error:
        raise InvalidInputError(f"{str(path)!r} is not a table of predictions: {error}") from error


def _read_parquet(path: Path) -> Mapping[str, Any]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise MissingDependencyError("reading parquet", "pyarrow", "parquet") from None
    try:
        table = pyarrow.parquet.read_table(path)
    except (pyarrow.ArrowInvalid, OSError) as error:
        raise InvalidInputError(f"{str(path)!r} is not a parquet table: {error}") from error
    return {name: table[name].to_pylist() for name in table.column_names}


_READERS = {".csv": _read_csv, ".npz": _read_npz, ".parquet": _read_parquet}
