"""Files of predictions of any size, calibrated part by part; the columns of the target come back, all of them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from scipy.special import softmax

from shiftcal.core.errors import InvalidInputError
from shiftcal.core.files import check_not_an_input, written_whole
from shiftcal.core.progress import progress_bar
from shiftcal.faces.calibration.fitted_calibration import Calibrated, FittedCalibration, fit_calibration
from shiftcal.faces.models.reader import SeenRows
from shiftcal.runs.evaluation import evaluate
from shiftcal.runs.prediction_columns import PREFIX, ColumnChoice, PredictionColumns, find_columns
from shiftcal.runs.prediction_tables import first_rows, prediction_chunks
from shiftcal.runs.predictions import Predictions
from shiftcal.runs.table_writer import check_table_path, table_writer
from shiftcal.target.sampling import RowSample

_Features = NDArray[np.float64] | None
# Rows that metrics are of, where the target has labels.
_MOST_EVALUATED = 200_000


@dataclass(frozen=True)
class PredictionFiles:
    """What a model said of both domains, on disk."""

    source: Path
    target: Path
    source_features: _Features = None
    target_features: _Features = None
    choice: ColumnChoice = ColumnChoice()


@dataclass(frozen=True)
class FileCalibration:
    """What came of it."""

    fitted: FittedCalibration
    notes: tuple[str, ...]
    """What was guessed of the columns, in words."""
    metrics: dict[str, dict[str, float | None]]
    """Of the target as given and calibrated, where it has labels; of a sample of many rows."""

    def as_plain(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            **self.fitted.target_estimate().as_plain(),
            "verdict": self.fitted.verdict(),
            "notes": list(self.notes),
            "metrics_by_labels": self.metrics,
        }


def calibrate_files(files: PredictionFiles, out: Path) -> FileCalibration:
    """Write the target's table with calibrated probabilities beside what it has.

    New columns are predicted_class, confidence, probability_<class> and density_ratio; columns of the target that
    have such a name stay as given_<name>.

    Raises:
        DataUnavailableError, InvalidInputError: a file is not there, or not what it should be.
        OutputError: the table can't be written.
    """
    check_table_path(out)
    check_not_an_input(out, [files.source, files.target])
    fitted, columns = fit_files(files)
    evaluated = RowSample(_MOST_EVALUATED)
    where, first = repr(str(files.target)), 0
    with (
        table_writer(out) as write,
        progress_bar(description="calibrating", total=fitted.num_target_rows, unit="rows") as bar,
    ):
        for chunk in prediction_chunks(files.target):
            outputs, rows = columns.outputs(chunk, where), np.arange(first, first + len(chunk))
            features = None if files.target_features is None else files.target_features[rows]
            found = fitted.calibrated(outputs, features, rows)
            write(_with_calibrated(chunk, columns, found))
            labels = columns.labels(chunk, where)
            if labels is not None:
                given = softmax(outputs, axis=1) if columns.kind == "logits" else outputs
                evaluated.add(given, found.probabilities, labels)
            first += len(chunk)
            bar.update(len(chunk))
    return FileCalibration(fitted, columns.notes, _metrics(evaluated, columns.classes))


def calibrate_file(source: Path, choice: ColumnChoice, target: Path, out: Path) -> int:
    """The same for one of many targets: what to expect on it is in a JSON file beside; gives the number of rows."""
    found = calibrate_files(PredictionFiles(source, target, choice=choice), out)
    with written_whole(out.with_suffix(".json")) as temporary:
        temporary.write_text(json.dumps(found.as_plain(), indent=2) + "\n", encoding="utf-8")
    return found.fitted.num_target_rows


def fit_files(files: PredictionFiles) -> tuple[FittedCalibration, PredictionColumns]:
    """The calibration, and where predictions stand in the tables; of many rows a sample is looked at."""
    columns = find_columns(first_rows(files.source), files.choice, repr(str(files.source)))
    if columns.label is None:
        raise InvalidInputError(
            f"source predictions {str(files.source)!r}: expected labels (a column 'label', or --label COLUMN)"
        )
    source, labels = _seen(files.source, columns, files.source_features, "source features", with_labels=True)
    target, _ = _seen(files.target, columns, files.target_features, "target features", with_labels=False)
    if labels is None:
        raise InvalidInputError(f"source predictions {str(files.source)!r}: expected labels, and there are none")
    fitted = fit_calibration(source, torch.from_numpy(labels), target, columns.classes, columns.kind)
    return fitted, columns


def _seen(
    path: Path, columns: PredictionColumns, features: _Features, name: str, *, with_labels: bool
) -> tuple[SeenRows, NDArray[np.int64] | None]:
    wanted = list(dict.fromkeys([*columns.columns, *([columns.label] if with_labels and columns.label else [])]))
    _check_columns(first_rows(path), wanted, path)
    sample, where = RowSample(), repr(str(path))
    with progress_bar(description="reading", unit="rows") as bar:
        for chunk in prediction_chunks(path, wanted):
            outputs = columns.outputs(chunk, where)
            rows = np.arange(sample.num_rows, sample.num_rows + len(chunk))
            sample.add(outputs, columns.labels(chunk, where) if with_labels else None, rows)
            bar.update(len(chunk))
    if not sample.num_rows:
        raise InvalidInputError(f"{where}: expected at least one row, got a header alone")
    outputs, labels, rows = sample.columns()
    if features is not None and (features.ndim != 2 or len(features) != sample.num_rows):
        raise InvalidInputError(
            f"{name}: expected finite numbers of shape ({sample.num_rows}, features), one row per prediction, "
            f"got {features.dtype} of {features.shape}"
        )
    seen = SeenRows(
        outputs=outputs,
        features=None if features is None else features[rows],
        inputs=None,
        rows=rows,
        labels=None,
        num_rows=sample.num_rows,
        looked_at=None if features is None else "given features",
        column_names=None,
        class_names=None,
    )
    return seen, labels


def _check_columns(table: pd.DataFrame, wanted: list[str], path: Path) -> None:
    absent = [name for name in wanted if name not in table.columns]
    if absent:
        raise InvalidInputError(
            f"{str(path)!r}: expected a column {absent[0]!r}, as on the source, got {list(map(str, table.columns))}"
        )


def _with_calibrated(chunk: pd.DataFrame, columns: PredictionColumns, found: Calibrated) -> pd.DataFrame:
    predicted = found.probabilities.argmax(axis=1)
    new = {
        "predicted_class": np.array(columns.classes, dtype=object)[predicted],
        "confidence": found.probabilities.max(axis=1),
        **{f"{PREFIX}{name}": found.probabilities[:, i] for i, name in enumerate(columns.classes)},
        "density_ratio": found.density_ratio,
    }
    kept = chunk.rename(columns={name: f"given_{name}" for name in chunk.columns if name in new})
    return pd.concat([kept, pd.DataFrame(new, index=chunk.index)], axis=1)


def _metrics(evaluated: RowSample, classes: tuple[str, ...]) -> dict[str, dict[str, float | None]]:
    if not evaluated.num_rows:
        return {}
    given, calibrated, labels = evaluated.columns()
    ids, ratio = np.arange(len(labels)).astype(str), np.ones(len(labels))
    return {
        name: evaluate(Predictions(ids, probabilities, ratio, classes, labels))
        for name, probabilities in (("target as given", given), ("target calibrated", calibrated))
    }
