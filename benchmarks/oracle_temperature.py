"""The best that a temperature could do on the target, if its labels could choose it, against DRL without labels.

    python benchmarks/oracle_temperature.py FILE.csv COMPARISON...

For each task and seed of comparisons with `source-only` and target scaling: the Brier score of `source-only` at the
temperature that is best for it on the target's labels, and that of target scaling.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path

import torch
from scipy.optimize import minimize_scalar
from torch import Tensor

from shiftcal.faces.model_outputs import LEAST_PROBABILITY
from shiftcal.metrics import brier_score
from shiftcal.runs.comparison import find_cells
from shiftcal.runs.predictions import load_predictions


def oracle_brier(probabilities: Tensor, labels: Tensor) -> float:
    """The lowest Brier score (N, C) over temperatures from 1/20 to 20."""
    log_probabilities = probabilities.clamp_min(LEAST_PROBABILITY).log()

    def at(log_temperature: float) -> float:
        return brier_score(torch.softmax(log_probabilities / 10**log_temperature, dim=-1), labels)

    return float(minimize_scalar(at, bounds=(-1.3, 1.3), method="bounded").fun)


def main(out: Path, comparisons: list[Path]) -> None:
    """Write the table."""
    cells = {key: folder for path in comparisons for key, folder in find_cells(path).items()}
    with out.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(["task", "seed", "oracle_temperature", "target_scaling"])
        for (task, method, seed), folder in cells.items():
            if method != "source-only+target-scaling":
                continue
            plain = load_predictions(cells[task, "source-only", seed].target_predictions)
            robust = load_predictions(folder.target_predictions)
            assert plain.labels is not None
            labels = torch.from_numpy(plain.labels)
            oracle = oracle_brier(torch.from_numpy(plain.probabilities), labels)
            writer.writerow([task, seed, f"{oracle:.4f}", f"{brier_score(robust.probabilities, labels):.4f}"])


if __name__ == "__main__":
    main(Path(sys.argv[1]), [Path(argument) for argument in sys.argv[2:]])
