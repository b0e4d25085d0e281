"""Tables: `AdaptiveClassifier` against scikit-learn's models of the source, and `ShiftCalibrator` around one of them.

    SHIFTCAL_DATA=... .venv/bin/python benchmarks/tables.py --out benchmarks/tables

Source and target are the labelled period and the last third of the monitored one of three streams (car loans, credit
cards, employment), and breast cancers of small and of large radius; 4,000 rows of each at most, drawn by the seed.
Everything is used as it comes: no model is tuned. Target labels are for the figures alone.
"""

from __future__ import annotations

import argparse
import csv
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from shiftcal import AdaptiveClassifier, ShiftCalibrator
from shiftcal.data.catalog.roots import data_roots
from shiftcal.metrics import accuracy, expected_calibration_error, negative_log_likelihood

_MOST_ROWS = 4_000
_NUM_SEEDS = 2
# Of each stream: the label, and what the deployed model said and what names rows or times.
_STREAMS = {
    "car_loan": ("repaid", r"^(id|timestamp|y_pred.*)$"),
    "credit_card": ("y_true", r"^(id|timestamp|y_pred.*)$"),
    "employment": ("employed", r"^(id|timestamp|year|predict.*)$"),
}
_METRICS = {
    "accuracy": accuracy,
    "ece": expected_calibration_error,
    "nll": negative_log_likelihood,
}


class Task(NamedTuple):
    """Labelled source and target."""

    name: str
    X: Any
    y: NDArray[np.int64]
    X_target: Any
    y_target: NDArray[np.int64]


def main() -> None:
    """Run all and write the record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    out = parser.parse_args().out
    rows = [row for seed in range(_NUM_SEEDS) for task in tasks(seed) for row in results(task, seed)]
    with (out / "results.csv").open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    (out / "table.md").write_text(written(pd.DataFrame(rows)), encoding="utf-8")


def tasks(seed: int) -> Iterator[Task]:
    """All tasks."""
    for name, (label, no_inputs) in _STREAMS.items():
        folder = data_roots()[0] / "streams"
        source, target = (pd.read_parquet(folder / f"{name}_{part}.parquet") for part in ("reference", "analysis"))
        # The last third: the shift, where there is one, is in the later periods.
        yield _task(name, source, target.tail(len(target) // 3), label, no_inputs, seed)
    cancers = load_breast_cancer(as_frame=True).frame
    noise = np.random.default_rng(seed).normal(0, 0.15, len(cancers))
    is_small = cancers["mean radius"].rank(pct=True) + noise < 0.6
    yield _task("breast_cancer", cancers[is_small], cancers[~is_small], "target", "^$", seed)


def _task(name: str, source: Any, target: Any, label: str, no_inputs: str, seed: int) -> Task:
    drawn = [frame.sample(min(len(frame), _MOST_ROWS), random_state=seed) for frame in (source, target)]
    labels = np.unique(np.concatenate([frame[label].to_numpy() for frame in drawn]))
    parts: list[Any] = []
    for frame in drawn:
        inputs = frame.drop(columns=[label, *frame.filter(regex=no_inputs).columns]).reset_index(drop=True)
        parts += [inputs, np.searchsorted(labels, frame[label].to_numpy()).astype(np.int64)]
    return Task(name, *parts)


def results(task: Task, seed: int) -> Iterator[dict[str, Any]]:
    """One row a model."""
    for name, fit in _MODELS.items():
        started = time.monotonic()
        model = fit(task, seed)
        probabilities = model.predict_proba(task.X_target)
        metrics = {key: round(metric(probabilities, task.y_target), 4) for key, metric in _METRICS.items()}
        expected = getattr(model, "estimated_accuracy_", None)
        row = {"task": task.name, "seed": seed, "model": name, **metrics}
        row["expected_accuracy"] = None if expected is None else round(float(expected), 4)
        row["seconds"] = round(time.monotonic() - started, 1)
        print(row, flush=True)
        yield row


def _prepared(numbers: Any) -> Any:
    one_hot = OneHotEncoder(handle_unknown="infrequent_if_exist", min_frequency=0.005, sparse_output=False)
    columns = make_column_selector(dtype_exclude=np.number), make_column_selector(dtype_include=np.number)
    return make_column_transformer((one_hot, columns[0]), (numbers, columns[1]))


def _logistic(task: Task, seed: int) -> Any:
    numbers = make_pipeline(SimpleImputer(strategy="median"), StandardScaler())
    model = make_pipeline(_prepared(numbers), LogisticRegression(max_iter=1000, random_state=seed))
    return model.fit(task.X, task.y)


def _boosting(task: Task, seed: int) -> Any:
    model = make_pipeline(_prepared("passthrough"), HistGradientBoostingClassifier(random_state=seed))
    return model.fit(task.X, task.y)


def _calibrated_boosting(task: Task, seed: int) -> Any:
    """Trained on four fifths; the rest is held out for the calibrator."""
    is_held_out = np.random.default_rng(seed).random(len(task.y)) < 0.2
    model = _boosting(task._replace(X=task.X[~is_held_out], y=task.y[~is_held_out]), seed)
    return ShiftCalibrator(model).fit(task.X[is_held_out], task.y[is_held_out], task.X_target)


def _adaptive(task: Task, seed: int) -> Any:
    return AdaptiveClassifier(random_state=seed).fit(task.X, task.y, task.X_target)


_MODELS: dict[str, Callable[[Task, int], Any]] = {
    "logistic regression": _logistic,
    "gradient boosting": _boosting,
    "gradient boosting in ShiftCalibrator": _calibrated_boosting,
    "AdaptiveClassifier": _adaptive,
}


def written(record: Any) -> str:
    """Means over the seeds as a table."""
    means = record.groupby(["task", "model"], sort=False).mean(numeric_only=True).reset_index()
    lines = [
        "| task | model | accuracy % ↑ | expected % | ECE ↓ | NLL ↓ |",
        "| --- | --- | ---: | ---: | ---: | ---: |",
    ]
    for row in means.itertuples():
        expected = "" if np.isnan(row.expected_accuracy) else f"{100 * row.expected_accuracy:.1f}"
        lines.append(
            f"| {row.task} | {row.model} | {100 * row.accuracy:.1f} | {expected} | {row.ece:.3f} | {row.nll:.3f} |"
        )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
