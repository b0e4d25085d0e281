"""What every estimator says of the episodes that `tasks.py` wrote: the data that the combined estimate is fitted to.

    python benchmarks/accuracy_estimates/witnesses.py EVIDENCE --out benchmarks/accuracy_estimates/witnesses.csv

Of the made tables a third is taken, by a hash of the name. What is finished is kept: the same command goes on.
`--part k/n` does every n-th episode from k on, for n processes that write to files of their own.
"""

from __future__ import annotations

import argparse
import csv
import warnings
import zlib
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tqdm import tqdm

from shiftcal.calibrators.base import CalibrationData
from shiftcal.methods.base import Outputs
from shiftcal.target.estimators import ESTIMATORS
from shiftcal.target.estimators.average_thresholded_confidence import AverageThresholdedConfidence
from shiftcal.target.estimators.combined import Combined

RIVALS = ("mean-confidence", "difference-of-confidences", "importance-weighted-accuracy")
DESCRIPTION = ("kind", "group", "task", "model", "shift")


def row_of(path: Path) -> dict[str, Any]:
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
    right = episode["target_logits"].argmax(axis=1) == episode["target_labels"]
    return {
        "file": path.name,
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


def main() -> None:
    """Record all episodes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("evidence", type=Path, help="folder that tasks.py wrote")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--part", default="0/1")
    arguments = parser.parse_args()
    first, step = map(int, arguments.part.split("/"))
    done: set[str] = set()
    if arguments.out.exists():
        with arguments.out.open() as stream:
            done = {row["file"] for row in csv.DictReader(stream)}
    paths = [path for path in sorted(arguments.evidence.glob("*.npz")) if is_taken(path)][first::step]
    # Rare classes may be absent from a fold of a second model.
    warnings.filterwarnings("ignore", message="The least populated class")
    for path in tqdm([path for path in paths if path.name not in done], desc="episodes", unit="episode"):
        row = row_of(path)
        is_new = not arguments.out.exists()
        with arguments.out.open("a", newline="") as stream:
            writer = csv.DictWriter(stream, list(row))
            if is_new:
                writer.writeheader()
            writer.writerow(row)


if __name__ == "__main__":
    main()
