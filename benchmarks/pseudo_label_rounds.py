"""Pseudo-labels of each round of the runs of a comparison, as one table.

python benchmarks/pseudo_label_rounds.py COMPARISON FILE.csv
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path

from shiftcal.data.pseudo_label_rounds import load_pseudo_label_rounds
from shiftcal.runs.comparison import find_cells
from shiftcal.runs.predictions import load_predictions

COLUMNS = ("task", "method", "seed", "epoch", "coverage", "estimated_precision", "true_precision")


def main(comparison: Path, out: Path) -> None:
    """Write a row for each cell that took rows of the target as labelled, and each of its rounds."""
    with out.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(COLUMNS)
        for key, folder in find_cells(comparison).items():
            if not folder.pseudo_labels.is_file():
                continue
            num_classes = len(load_predictions(folder.target_predictions).classes)
            rounds = load_pseudo_label_rounds(folder.pseudo_labels, num_classes)
            assert rounds.true_precision is not None, "the runs of a benchmark have labels for evaluation"
            numbers = zip(rounds.epochs, rounds.share, rounds.estimated_precision, rounds.true_precision, strict=True)
            writer.writerows([*key, epoch, *(f"{value:.4f}" for value in values)] for epoch, *values in numbers)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
