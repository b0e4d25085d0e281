"""How often the surest predictions for the target are right, at the same coverage for every method.

    python benchmarks/precision_at_coverage.py COMPARISON FILE.csv

A row for each cell: the precision of the surest tenth, quarter and half of the target's test rows after training.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path

import numpy as np

from shiftcal.runs.comparison import find_cells
from shiftcal.runs.predictions import load_predictions

COVERAGES = (0.1, 0.25, 0.5)


def main(comparison: Path, out: Path) -> None:
    """Write the table."""
    with out.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(["task", "method", "seed", *(f"precision_at_{coverage}" for coverage in COVERAGES)])
        for key, folder in find_cells(comparison).items():
            predictions = load_predictions(folder.target_predictions)
            assert predictions.labels is not None, "the runs of a benchmark have labels for evaluation"
            surest_first = np.argsort(-predictions.confidence, kind="stable")
            right = (predictions.predicted == predictions.labels)[surest_first]
            precision = (right[: round(coverage * len(right))].mean() for coverage in COVERAGES)
            writer.writerow([*key, *(f"{value:.4f}" for value in precision)])


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
