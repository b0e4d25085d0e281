"""Coverage and width of the interval of the accuracy from a few labels, against labels of rows drawn at random.

    python benchmarks/monitoring/few_labels.py --out benchmarks/monitoring/few_labels.csv

Made targets of 2,000 rows: probabilities that are right, too sure, too unsure, or sure and wrong on a tenth of the
rows. Labels are drawn anew each time. At random: Wilson's interval of the share of right ones.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

from shiftcal.core.progress import progress_bar
from shiftcal.target.few_labels import plan_labels

NUM_ROWS = 2_000
TRIALS = 600
LEVEL = 0.9

FloatArray = NDArray[np.float64]


def targets(rng: np.random.Generator) -> dict[str, tuple[FloatArray, FloatArray]]:
    """Stated and true probability that a prediction is right, of each row."""
    ordinary = 0.5 + 0.5 * rng.beta(6, 0.6, NUM_ROWS)
    sure = rng.beta(30, 1, NUM_ROWS).clip(0.5, 0.999)
    hard = 0.3 + 0.6 * rng.random(NUM_ROWS)
    unsure = 0.7 + 0.2 * rng.random(NUM_ROWS)
    parted = np.where(rng.random(NUM_ROWS) < 0.6, 0.995, 0.55 + 0.3 * rng.random(NUM_ROWS))
    return {
        "right": (ordinary, ordinary),
        "right, sure": (sure, sure),
        "right, hard": (hard, hard),
        "right, in doubt on four tenths": (parted, parted),
        "too sure": (ordinary, ordinary - 0.15),
        "too unsure": (unsure, np.full(NUM_ROWS, 0.97)),
        "sure and wrong on a tenth": (ordinary, np.where(rng.random(NUM_ROWS) < 0.1, 0.1, ordinary)),
    }


def main() -> None:
    """Write one line for each target and number of labels."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    rng = np.random.default_rng(0)
    lines = []
    for name, (stated, true) in targets(rng).items():
        for num_labels in (20, 50, 200):
            found = [trial(stated, true, num_labels, rng) for _ in progress_bar(range(TRIALS), name)]
            means = pd.DataFrame(found).mean().round(4).to_dict()
            lines.append({"target": name, "labels": num_labels, "accuracy": round(float(true.mean()), 3), **means})
            print(lines[-1], flush=True)
    pd.DataFrame(lines).to_csv(arguments.out, index=False)


def trial(stated: FloatArray, true: FloatArray, num_labels: int, rng: np.random.Generator) -> dict[str, float]:
    """One draw of labels and of a ranking."""
    right = rng.random(len(true)) < true
    plan = plan_labels(np.ones(len(true), dtype=int), stated, seed=int(rng.integers(2**32)))
    found = plan.estimate(right[plan.order[:num_labels]].astype(int).tolist(), LEVEL)
    share = right[rng.permutation(len(right))[:num_labels]].mean()
    low, high = wilson(share, num_labels)
    return {
        "covered": found.low <= right.mean() <= found.high,
        "width": found.high - found.low,
        "bias": found.accuracy - right.mean(),
        "random_covered": low <= right.mean() <= high,
        "random_width": high - low,
    }


def wilson(share: float, num_labels: int) -> tuple[float, float]:
    """Of a share of so many."""
    found = stats.binomtest(round(share * num_labels), num_labels).proportion_ci(LEVEL, method="wilson")
    return found.low, found.high


if __name__ == "__main__":
    main()
