"""What every estimator says of the episodes that `tasks.py` wrote: the data that the combined estimate is fitted to.

    python -m benchmarks witnesses --evidence FOLDER --out FILE.csv

Of the made tables a third is taken, by a hash of the name. `--part k/n` does every n-th episode from k on, for n
processes that write to files of their own.
"""

from __future__ import annotations

import argparse
import warnings
import zlib
from collections.abc import Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from benchmarks.frame import Benchmark, Job

from shiftcal.calibrators.base import CalibrationData
from shiftcal.methods.base import Outputs
from shiftcal.target.estimators import ESTIMATORS
from shiftcal.target.estimators.average_thresholded_confidence import AverageThresholdedConfidence
from shiftcal.target.estimators.combined import Combined

RIVALS = ("mean-confidence", "difference-of-confidences", "importance-weighted-accuracy")
DESCRIPTION = ("kind", "group", "task", "model", "shift")


def measure(path: Path) -> Iterator[dict[str, Any]]:
    """All that is recorded of an episode."""
    with np.load(path, allow_pickle=False) as arrays:
        episode = dict(arrays)
    labels = torch.from_numpy(episode["held_out_labels"])
    held_out, target = (
        _outputs(episode[f"{part}_logits"], episode[f"{part}_features"]) for part in ("held_out", "target")
    )
    data = CalibrationData(held_out, labels, target, num_classes=held_out.logits.shape[1])
    evidence = data.evidence()
    assert evidence is not None
    # Rare classes may be absent from a fold of a second model.
    warnings.filterwarnings("ignore", message="The least populated class")
    right = episode["target_logits"].argmax(axis=1) == episode["target_labels"]
    yield {
        **{name: str(episode[name]) for name in DESCRIPTION},
        "num_held_out": len(labels),
        "num_target": len(right),
        "num_classes": held_out.logits.shape[1],
        "accuracy": right.mean(),
        **asdict(Combined().witnesses(evidence)),
        "shifted_share": evidence.structure.shifted.share,
        "thresholded_entropy": AverageThresholdedConfidence(score="entropy").estimate(evidence),
        **{name.replace("-", "_"): ESTIMATORS[name]().estimate(evidence) for name in RIVALS},
    }


def _outputs(logits: np.ndarray, features: np.ndarray) -> Outputs:
    ones = torch.ones(len(logits), dtype=torch.float64)
    return Outputs(torch.from_numpy(logits).double(), ones, torch.from_numpy(features).double())


def is_taken(path: Path) -> bool:
    """Whether an episode is among those that are recorded."""
    made = path.name.startswith("tables") and "--given--" not in path.name
    return not made or zlib.crc32(path.name.encode()) % 3 == 0


def jobs(arguments: argparse.Namespace) -> Iterator[Job]:
    """One for each episode."""
    first, step = map(int, arguments.part.split("/"))
    for path in [path for path in sorted(arguments.evidence.glob("*.npz")) if is_taken(path)][first::step]:
        yield Job({"file": path.name}, partial(measure, path))


def declare(parser: argparse.ArgumentParser) -> None:
    """Which episodes."""
    parser.add_argument("--evidence", type=Path, required=True, help="folder that tasks.py wrote")
    parser.add_argument("--part", default="0/1")


BENCHMARKS = {"witnesses": Benchmark(jobs, declare=declare)}
