"""Coverage and width of the interval of the accuracy from a few labels, against labels of rows drawn at random.

    python -m benchmarks few_labels --out benchmarks/monitoring/few_labels.csv

Made targets of 2,000 rows: probabilities that are right, too sure, too unsure, or sure and wrong on a tenth of the
rows. Labels are drawn anew each time. At random: Wilson's interval of the share of right ones.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from functools import partial

import numpy as np
import pandas as pd
from benchmarks.frame import Benchmark, Job
from numpy.typing import NDArray
from scipy import stats

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


def jobs(_: argparse.Namespace) -> Iterator[Job]:
    """One for each target and number of labels."""
    for name, (stated, true) in targets(np.random.default_rng(0)).items():
        for num_labels in (20, 50, 200):
            key = {"target": name, "labels": num_labels, "accuracy": float(true.mean())}
            yield Job(key, partial(means, stated, true, num_labels))


def means(stated: FloatArray, true: FloatArray, num_labels: int) -> list[dict[str, float]]:
    """Over all draws."""
    rng = np.random.default_rng(num_labels)
    return [dict(pd.DataFrame([trial(stated, true, num_labels, rng) for _ in range(TRIALS)]).mean())]


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


BENCHMARKS = {"few_labels": Benchmark(jobs)}
