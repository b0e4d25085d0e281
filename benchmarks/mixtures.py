"""Mixed targets, of which only a part has shifted: calibration fitted on the mixture itself.

Nine pairs of Office-31 and Office-Home domains (features of EfficientNet-Lite2); 25, 50 and 75 % of the rows are of
the other domain, the rest are rows of the source that neither trained nor calibrated anything. A logistic regression
as it is, with temperature scaling on held-out source rows, with ShiftCalibrator, and with the oracle that knows which
rows are which and the labels of all of them: one temperature for each part.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from benchmarks.frame import Benchmark, Job, Rows
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from shiftcal import ShiftCalibrator
from shiftcal.functional.temperature import fit_temperature
from shiftcal.metrics import compute_metrics
from shiftcal.runs.reproduction.base import mean_of, values_of

PAIRS = {
    "office31": (("amazon", "webcam"), ("dslr", "amazon"), ("webcam", "amazon"), ("amazon", "dslr")),
    "officehome": (
        *(("Art", "Clipart"), ("Clipart", "Real_World"), ("Product", "Art")),
        *(("Real_World", "Clipart"), ("Real_World", "Product")),
    ),
}
SHARES = (0.25, 0.5, 0.75)
MOST_ROWS = 2_000


class Mixture(NamedTuple):
    """A trained model, rows that were held out, and a target of two parts."""

    name: str
    model: Any
    held_out: np.ndarray
    held_out_labels: np.ndarray
    target: np.ndarray
    target_labels: np.ndarray
    has_shifted: np.ndarray


def mixtures(folder: Path) -> Iterator[Mixture]:
    """All of them; each source is trained on once."""
    for name, pairs in PAIRS.items():
        with np.load(folder / f"{name}_features.npz", allow_pickle=False) as arrays:
            domains = {key: arrays[key] for key in arrays}
        for source, target in pairs:
            generator = np.random.default_rng(0)
            inputs, labels = domains[f"{source}_x"].astype(np.float64), domains[f"{source}_y"].astype(int)
            others, other_labels = domains[f"{target}_x"].astype(np.float64), domains[f"{target}_y"].astype(int)
            cuts = [len(labels) // 2, len(labels) * 3 // 4]
            fitted, held_out, rest = np.split(generator.permutation(len(labels)), cuts)
            model = make_pipeline(StandardScaler(), LogisticRegression(C=0.01, max_iter=500))
            model.fit(inputs[fitted], labels[fitted])
            for share in SHARES:
                size = min(int(len(rest) / (1 - share)), int(len(other_labels) / share), MOST_ROWS)
                new = generator.permutation(len(other_labels))[: int(share * size)]
                same = generator.permutation(rest)[: size - int(share * size)]
                yield Mixture(
                    f"{source}->{target} {share}",
                    model,
                    inputs[held_out],
                    labels[held_out],
                    np.concatenate([others[new], inputs[same]]),
                    np.concatenate([other_labels[new], labels[same]]),
                    np.repeat([True, False], [len(new), len(same)]),
                )


def measure(mixture: Mixture) -> Iterator[dict[str, Any]]:
    """Each contender on a mixture."""
    logits = torch.from_numpy(mixture.model.decision_function(mixture.target))
    held_out = torch.from_numpy(mixture.model.decision_function(mixture.held_out))
    labels = torch.from_numpy(mixture.target_labels)
    oracle = logits.clone()
    for part in (mixture.has_shifted, ~mixture.has_shifted):
        rows = torch.from_numpy(part)
        oracle[rows] /= fit_temperature(logits[rows], labels[rows])
    calibrated = ShiftCalibrator(mixture.model).fit(mixture.held_out, mixture.held_out_labels, mixture.target)
    temperature = fit_temperature(held_out, torch.from_numpy(mixture.held_out_labels))
    contenders = {
        "model as it is": logits.softmax(dim=-1).numpy(),
        "temperature": (logits / temperature).softmax(dim=-1).numpy(),
        "ShiftCalibrator": calibrated.predict_proba(mixture.target),
        "oracle: a temperature for each part": oracle.softmax(dim=-1).numpy(),
    }
    found = calibrated.diagnosis_
    for name, probabilities in contenders.items():
        metrics = compute_metrics(probabilities, mixture.target_labels)
        yield {
            "contender": name,
            "accuracy": metrics["accuracy"],
            "expected_calibration_error": metrics["expected_calibration_error"],
            "brier_score": metrics["brier_score"],
            "shifted_share": mixture.has_shifted.mean(),
            "estimated_shifted_share": found.shifted_share,
            "estimated_accuracy": found.accuracy,
        }


def table(rows: Rows) -> str:
    """Means of each contender, and errors of the estimates."""
    lines = ["| contender | ECE | Brier |", "|---|---|---|"]
    for name in map(str, values_of(rows, "contender")):
        means = [mean_of(rows, metric, contender=name) for metric in ("expected_calibration_error", "brier_score")]
        lines.append(f"| {name} | {means[0]:.4f} | {means[1]:.4f} |")
    own = [row for row in rows if row["contender"] == "ShiftCalibrator"]
    share, accuracy = (
        np.mean([abs(float(row[truth]) - float(row[estimate])) for row in own])
        for truth, estimate in (("shifted_share", "estimated_shifted_share"), ("accuracy", "estimated_accuracy"))
    )
    lines += ["", f"Mean error of the share that has shifted: {share:.3f}; of the accuracy: {accuracy:.3f}."]
    return "\n".join(lines) + "\n"


def jobs(_: argparse.Namespace) -> Iterator[Job]:
    """Every mixture."""
    for mixture in mixtures(Path(os.environ["SHIFTCAL_DATA"])):
        yield Job({"mixture": mixture.name}, partial(measure, mixture))


BENCHMARKS = {"mixtures": Benchmark(jobs, table)}
