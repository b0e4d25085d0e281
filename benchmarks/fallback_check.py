"""Does the fallback see the harm that adapting did? Its question, put to the runs of a comparison on features.

SHIFTCAL_DATA=... python benchmarks/fallback_check.py COMPARISON FILE.csv

A row for each task, seed and method: accuracy and agreement with the target's clusters, of the method and of
`source-only`. Labels are for the accuracy alone.
"""

from __future__ import annotations

import csv
import sys
from functools import cache
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from shiftcal.comparison import find_cells
from shiftcal.data.specs import load_domain
from shiftcal.fallback import agreement_with_clusters
from shiftcal.predictions import load_predictions
from shiftcal.progress import progress_bar

REFERENCE = "source-only"
NOT_ADAPTING = (REFERENCE, "drl", "asg")
CLEARLY = 0.01


@cache
def target_features(spec: str) -> Tensor:
    """All rows of a target."""
    inputs = load_domain(spec).inputs
    return inputs.fetch(np.arange(len(inputs), dtype=np.int64)).double()


def main(comparison: Path, out: Path) -> None:
    """Write the table, and print how often the two agree."""
    cells = {key: folder for key, folder in find_cells(comparison).items() if "features" in key[0]}
    found: dict[tuple[str, str, int], tuple[float, float]] = {}
    for key, folder in progress_bar(cells.items(), "judging", total=len(cells)):
        probabilities = torch.from_numpy(load_predictions(folder.target_predictions).probabilities).double()
        agreement = agreement_with_clusters(target_features(key[0].partition("->")[2]), probabilities)
        accuracy = folder.read_metrics()["target"]["accuracy"]
        assert accuracy is not None
        found[key] = accuracy, agreement
    judged = [key for key in found if key[1] not in NOT_ADAPTING and (key[0], REFERENCE, key[2]) in found]
    numbers = np.array([[*found[key], *found[key[0], REFERENCE, key[2]]] for key in judged])
    with out.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(["task", "method", "seed", "accuracy", "agreement", "source_accuracy", "source_agreement"])
        writer.writerows([*key, *map("{:.4f}".format, row)] for key, row in zip(judged, numbers, strict=True))
    gain, agreement_gain = (numbers[:, :2] - numbers[:, 2:]).T
    harmful, good, given_up = gain < -CLEARLY, gain > CLEARLY, agreement_gain < 0
    print(
        f"{len(judged)} runs: of {harmful.sum()} that lost over a point of accuracy {(harmful & given_up).sum()} "
        f"would be given up, of {good.sum()} that gained over a point {(good & given_up).sum()}; correlation of the "
        f"gains {np.corrcoef(gain, agreement_gain)[0, 1]:.3f}"
    )


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
