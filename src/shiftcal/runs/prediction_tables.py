"""Predictions as tables, for other programs and from them: csv, npz or parquet by the suffix of the file.

One row an input: id, predicted_class, confidence, one column probability_<class> per class, density_ratio. To be
read, a table needs probabilities, percentages or logits alone (`shiftcal.runs.prediction_columns`), in any of the
formats of `shiftcal.data.table_chunks`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from shiftcal.core.array_reading import open_array_file
from shiftcal.core.csv_writing import with_safe_text, write_csv
from shiftcal.core.errors import DataUnavailableError, InvalidInputError, MissingDependencyError, shown
from shiftcal.core.files import written_whole
from shiftcal.data.table_chunks import table_chunks
from shiftcal.runs.prediction_columns import PREFIX
from shiftcal.runs.predictions import Predictions, load_predictions, plain_classes


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
    own = {name: column for name, column in prediction_columns(predictions) if name != "id"}
    table = beside.assign(**{f"shiftcal_{name}" if name in beside else name: own[name] for name in own})
    with written_whole(path) as temporary:
        if path.suffix.lower() == ".csv":
            with_safe_text(table).to_csv(temporary, index=False)
        else:
            table.to_parquet(temporary, index=False)


def check_export_path(path: Path) -> None:
    """Raise `InvalidInputError` if the suffix names no format."""
    if path.suffix.lower() not in _EXPORTS:
        raise InvalidInputError(f"expected an output file that ends in {' or '.join(_EXPORTS)}, got {path.name!r}")


def prediction_columns(predictions: Predictions) -> Iterator[tuple[str, NDArray[Any]]]:
    """Name and values of each column of such a table."""
    names = np.array(plain_classes(predictions.classes))
    yield "id", predictions.ids
    yield "predicted_class", names[predictions.predicted]
    yield "confidence", predictions.confidence
    yield from _probability_columns(names.tolist(), predictions.probabilities).items()
    yield "density_ratio", predictions.density_ratio


def _export_csv(predictions: Predictions, path: Path) -> None:
    columns = dict(prediction_columns(predictions))
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
        raise MissingDependencyError("writing parquet", "pyarrow", "tables") from None
    with written_whole(path) as temporary:
        pyarrow.parquet.write_table(pyarrow.table(dict(prediction_columns(predictions))), temporary)


_EXPORTS = {".csv": _export_csv, ".npz": _export_npz, ".parquet": _export_parquet}


def prediction_chunks(path: Path, columns: list[str] | None = None) -> Iterator[pd.DataFrame]:
    """A table of predictions in parts, in bounded memory unless it is an npz file.

    Raises:
        DataUnavailableError: there is no such file.
        InvalidInputError: it is no table.
    """
    if not path.is_file():
        raise DataUnavailableError(f"no predictions at {str(path)!r}")
    if path.suffix.lower() != ".npz":
        yield from table_chunks(path, columns=columns)
        return
    table = _read_npz(path)
    yield table if columns is None else table[columns]


def first_rows(path: Path) -> pd.DataFrame:
    """The first part of a table, from which its columns are told."""
    return next(prediction_chunks(path), pd.DataFrame())


def _read_npz(path: Path) -> pd.DataFrame:
    with open_array_file(path) as file:
        if "ids" in file:
            return _as_table(load_predictions(path))
        classes = file.read("classes", "Uiufb", None)
        probabilities = file.read("probabilities", "fiu", None, len(classes))
        beside = {name: file.read(name, "Uiufb", len(probabilities)) for name in ("id", "label") if name in file}
        return pd.DataFrame(beside | _probability_columns(classes.tolist(), probabilities))


def _as_table(predictions: Predictions) -> pd.DataFrame:
    names = plain_classes(predictions.classes)
    table = pd.DataFrame({"id": predictions.ids} | _probability_columns(names, predictions.probabilities))
    if predictions.labels is not None:
        table["label"] = np.array(names, dtype=str)[predictions.labels]
    return table


def _probability_columns(classes: Sequence[Any], probabilities: NDArray[Any]) -> dict[str, NDArray[Any]]:
    columns = {f"{PREFIX}{name}": probabilities[:, number] for number, name in enumerate(classes)}
    if len(columns) < len(classes):
        raise InvalidInputError(f"expected classes of different names, got {shown(list(classes))}")
    return columns
