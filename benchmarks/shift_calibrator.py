"""ShiftCalibrator around models that are already trained, against temperature scaling.

On each task a model is trained on 80 % of the source: logistic regression and gradient boosting of scikit-learn, and
shiftcal's source-only network with the budget of the suites, a small CNN for images. The other 20 % serve temperature
scaling and ShiftCalibrator alike; target labels serve the metrics alone. The record is of `--seeds 2`, and of
`--seeds 2 --tasks digits --models source-only`.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import torch
from benchmarks.frame import Benchmark, Job
from sklearn.decomposition import PCA
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from shiftcal import AdaptiveClassifier, ShiftCalibrator
from shiftcal.data.domains import LabelledDomain
from shiftcal.faces.models.outputs import LEAST_PROBABILITY
from shiftcal.functional.temperature import fit_temperature
from shiftcal.metrics import compute_metrics
from shiftcal.runs.config import RunConfig
from shiftcal.runs.run_data import load_data
from shiftcal.runs.tasks import Task, parse_tasks

METRICS = (
    "accuracy",
    "expected_calibration_error",
    "brier_score",
    "negative_log_likelihood",
    "error_detection_auroc",
)


def logistic_regression(seed: int) -> Any:
    """A regularised linear model."""
    return make_pipeline(StandardScaler(), LogisticRegression(C=0.01, max_iter=500, random_state=seed))


def gradient_boosting(seed: int) -> Any:
    """Trees, of which probabilities are often zero."""
    # With a thousand columns and 65 classes boosting takes an hour; on leading components, seconds. Without the
    # penalty it diverges on one of the sources (held-out accuracy .25 against .85).
    boosting = HistGradientBoostingClassifier(max_iter=40, l2_regularization=1.0, random_state=seed)
    return make_pipeline(PCA(48, random_state=seed), boosting)


def source_only(seed: int) -> Any:
    """The network that all methods are compared with."""
    options = {"validation_fraction": 0.0, "epoch_steps": 100}
    return AdaptiveClassifier("source-only", epochs=10, random_state=seed, training_options=options)


MODELS: dict[str, Callable[[int], Any]] = {
    "logistic-regression": logistic_regression,
    "gradient-boosting": gradient_boosting,
    "source-only": source_only,
}


def arrays(domain: Any) -> tuple[Any, Any]:
    """All inputs and labels: features as an array, images as a tensor."""
    assert isinstance(domain, LabelledDomain)
    values = domain.inputs.fetch(np.arange(len(domain), dtype=np.int64))
    labels = np.array([str(domain.classes[code]) for code in domain.labels])
    return (values.numpy() if values.ndim == 2 else values), labels


def measure(task: Task, model_name: str, seed: int) -> list[dict[str, Any]]:
    """Metrics of a model as it is, with temperature scaling and with ShiftCalibrator."""
    data = load_data(RunConfig(source=task.source, target=task.target, test=task.test), download=False)
    inputs, labels = arrays(data.problem.source)
    target_inputs, _ = arrays(data.labelled_target)
    test_inputs, test_labels = arrays(data.test)
    fitted, held_out = train_test_split(np.arange(len(labels)), test_size=0.2, stratify=labels, random_state=seed)
    model = MODELS[model_name](seed).fit(inputs[fitted], labels[fitted])
    columns = {label: number for number, label in enumerate(model.classes_.tolist())}
    codes = torch.tensor([columns[label] for label in labels[held_out]])
    logits, held_out_logits = (
        torch.from_numpy(model.predict_proba(rows)).double().clamp_min(LEAST_PROBABILITY).log()
        for rows in (test_inputs, inputs[held_out])
    )
    temperature = fit_temperature(held_out_logits, codes)
    calibrated = ShiftCalibrator(model).fit(inputs[held_out], labels[held_out], target_inputs)
    by_calibration = {
        "none": torch.softmax(logits, dim=-1),
        "temperature": torch.softmax(logits / temperature, dim=-1),
        "ShiftCalibrator": torch.from_numpy(calibrated.predict_proba(test_inputs)),
    }
    truth = np.array([columns[label] for label in test_labels])
    records = []
    for calibration, probabilities in by_calibration.items():
        metrics = compute_metrics(probabilities, truth)
        estimate = calibrated.estimated_accuracy_ if calibration == "ShiftCalibrator" else ""
        records.append(
            {"calibration": calibration}
            | {name: metrics[name] for name in METRICS}
            | {"estimated_accuracy": estimate}
        )
    return records


def declare(parser: argparse.ArgumentParser) -> None:
    """What to measure."""
    parser.add_argument("--tasks", default="office-31-features,office-home-features")
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--seeds", type=int, default=3)


def jobs(arguments: argparse.Namespace) -> Iterator[Job]:
    """Each model on each task with each seed."""
    for seed in range(arguments.seeds):
        for model in arguments.models.split(","):
            for task in parse_tasks(arguments.tasks):
                yield Job({"model": model, "task": task.name, "seed": seed}, partial(measure, task, model, seed))


BENCHMARKS = {"shift_calibrator": Benchmark(jobs, declare=declare)}
