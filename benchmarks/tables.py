"""Tables: `AdaptiveClassifier` against scikit-learn's models of the source, and `ShiftCalibrator` around one of them.

Source and target are the labelled period and the last third of the monitored one of three streams (car loans, credit
cards, employment), and breast cancers of small and of large radius; 4,000 rows of each at most, drawn by the seed.
Everything is used as it comes: no model is tuned. Target labels are for the figures alone.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from benchmarks.frame import Benchmark, Job, Rows
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
from shiftcal.runs.reproduction.base import mean_of

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


def measure(task: Task, model_name: str, seed: int) -> Iterator[dict[str, Any]]:
    """One row."""
    started = time.monotonic()
    model = _MODELS[model_name](task, seed)
    probabilities = model.predict_proba(task.X_target)
    yield {
        **{key: metric(probabilities, task.y_target) for key, metric in _METRICS.items()},
        "expected_accuracy": getattr(model, "estimated_accuracy_", ""),
        "seconds": round(time.monotonic() - started, 1),
    }


def jobs(_: argparse.Namespace) -> Iterator[Job]:
    """Each model on each task with each seed."""
    for seed in range(_NUM_SEEDS):
        for task in tasks(seed):
            for name in _MODELS:
                yield Job({"task": task.name, "seed": seed, "model": name}, partial(measure, task, name, seed))


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


def table(rows: Rows) -> str:
    """Means over the seeds."""
    lines = [
        "| task | model | accuracy % ↑ | expected % | ECE ↓ | NLL ↓ |",
        "| --- | --- | ---: | ---: | ---: | ---: |",
    ]
    for task, model in dict.fromkeys((row["task"], row["model"]) for row in rows):
        own = [row for row in rows if (row["task"], row["model"]) == (task, model)]
        expected = f"{100 * mean_of(own, 'expected_accuracy'):.1f}" if own[0]["expected_accuracy"] else ""
        right, ece, nll = (mean_of(own, name) for name in _METRICS)
        lines.append(f"| {task} | {model} | {100 * right:.1f} | {expected} | {ece:.3f} | {nll:.3f} |")
    return "\n".join(lines) + "\n"


BENCHMARKS = {"tables": Benchmark(jobs, table)}
