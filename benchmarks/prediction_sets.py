"""What prediction sets hold and how large they are, by what they rest on, in the runs of comparisons.

    python benchmarks/prediction_sets.py FILE.csv COMPARISON...

A row for each method, wanted coverage and witness, the mean over tasks and seeds: "source" is weighted conformal
prediction by held-out source rows and the learned ratio, "target" the probabilities of the target's own rows, "both"
what `predict_set` does, with thresholds from the rows that are evaluated. Labels of the target are for the coverage
alone.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path

import numpy as np
import torch

from shiftcal.runs.comparison import find_cells
from shiftcal.runs.predictions import load_predictions
from shiftcal.target.prediction_sets import Conformity, conformity

METHODS = ("source-only", "source-only+temperature", "source-only+target-scaling")
COVERAGES = (0.8, 0.9, 0.95)


def witnesses(found: Conformity) -> dict[str, Conformity]:
    """Each alone, and both; a source row that is never in doubt asks for nothing."""
    silent = found._replace(scores=torch.zeros(1).double(), weights=torch.ones(1).double())
    return {"source": found._replace(expected=None), "target": silent, "both": found}


def main(out: Path, comparisons: list[Path]) -> None:
    """Write the table."""
    cells = [(key, folder) for path in comparisons for key, folder in find_cells(path).items()]
    found: dict[tuple[str, float, str], list[tuple[float, float]]] = {}
    for (_, method, _), folder in cells:
        if method not in METHODS:
            continue
        source, target = load_predictions(folder.source_predictions), load_predictions(folder.target_predictions)
        assert source.labels is not None
        assert target.labels is not None
        rests_on = conformity(
            torch.from_numpy(source.probabilities),
            torch.from_numpy(source.labels),
            torch.from_numpy(1 / source.density_ratio),
            torch.from_numpy(target.probabilities),
        )
        for coverage in COVERAGES:
            for name, witness in witnesses(rests_on).items():
                sets = witness.sets(target.probabilities, 1 / target.density_ratio, coverage)
                holds = float(sets[np.arange(len(sets)), target.labels].mean())
                found.setdefault((method, coverage, name), []).append((holds, float(sets.sum(axis=1).mean())))
    with out.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(["method", "wanted", "witness", "runs", "coverage", "mean_distance", "labels"])
        for (method, coverage, name), values in sorted(found.items(), key=lambda item: METHODS.index(item[0][0])):
            holds, sizes = np.array(values).T
            distance = np.abs(holds - coverage).mean()
            numbers = [f"{value:.4f}" for value in (holds.mean(), distance, sizes.mean())]
            writer.writerow([method, coverage, name, len(values), *numbers])


if __name__ == "__main__":
    main(Path(sys.argv[1]), [Path(argument) for argument in sys.argv[2:]])
