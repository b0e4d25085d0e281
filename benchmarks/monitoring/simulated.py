"""Calibrated confidence (CBPE) with and without what inputs add, on streams that are simulated.

    python -m benchmarks simulated_streams --out benchmarks/monitoring/simulated.csv

Of each world eight correlated numbers and a category decide about two classes by a function with products and waves,
which a model (logistic regression or boosted trees) has learned from 3,000 rows. A reference of 1,500, 5,000 or
20,000 rows is as these; batches of 5,000 rows have none, half or all of a shift: of the mean in one direction, of the
scale, of a part of the rows, of the category, or of the class frequencies. Inputs mean the same throughout.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from functools import partial

import numpy as np
import pandas as pd
from benchmarks.frame import Benchmark, Job
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression

from shiftcal.target.confidence_drop import ConfidenceReference
from shiftcal.target.right_probability import RightProbability

SHIFTS = ("mean", "scale", "part", "category", "prior")
REFERENCE_ROWS = (20_000, 5_000, 1_500)
NUMBERS, WORLDS = 8, 8

Rows = tuple[np.ndarray, np.ndarray]


class World:
    """Where rows come from."""

    def __init__(self, seed: int) -> None:
        self._random = random = np.random.default_rng(seed)
        self._linear = random.normal(size=NUMBERS) * 0.8
        self._products = random.normal(size=(NUMBERS, NUMBERS)) * 0.5
        self._mixing = np.tril(random.normal(size=(NUMBERS, NUMBERS))) * 0.4 + np.eye(NUMBERS)
        self._of_category = random.normal(size=random.integers(2, 6))
        direction = random.normal(size=NUMBERS)
        self._direction = direction / np.linalg.norm(direction)

    def drawn(self, num_rows: int, shift: str = "mean", strength: float = 0.0) -> Rows:
        """Inputs (N, D) and labels (N,)."""
        random, num_categories = self._random, len(self._of_category)
        numbers = random.normal(size=(num_rows, NUMBERS)) @ self._mixing.T
        if shift == "mean":
            numbers += 1.2 * strength * self._direction
        if shift == "scale":
            numbers *= 1 + 0.8 * strength
        if shift == "part":
            numbers[random.random(num_rows) < strength / 2] += 2 * self._direction
        odds = np.exp(2 * strength * np.arange(num_categories) * (shift == "category"))
        category = random.choice(num_categories, num_rows, p=odds / odds.sum())
        bent = np.tanh(numbers)
        logit = numbers @ self._linear + np.einsum("ni,ij,nj->n", bent, self._products, bent)
        logit += self._of_category[category] * np.sin(2 * numbers[:, 0])
        labels = (random.random(num_rows) < 1 / (1 + np.exp(-logit))).astype(int)
        inputs = np.column_stack([numbers, np.eye(num_categories)[category]])
        if shift == "prior":
            kept = (labels == 0) | (random.random(num_rows) >= 0.6 * strength)
            return inputs[kept], labels[kept]
        return inputs, labels


def jobs(_: argparse.Namespace) -> Iterator[Job]:
    """One for each world."""
    for seed in range(WORLDS):
        yield Job({"world": seed}, partial(batches, seed))


def table(rows: list[dict[str, str]]) -> str:
    """Mean errors by shift."""
    found = pd.DataFrame(rows)
    numbers = found[["confidence", "with_inputs", "true_accuracy"]].astype(float)
    errors = numbers[["confidence", "with_inputs"]].sub(numbers["true_accuracy"], axis=0).abs()
    lines = ["| shift | strength | error by confidence | with inputs |", "| --- | ---: | ---: | ---: |"]
    for (shift, strength), means in errors.groupby([found["shift"], found["strength"]]).mean().iterrows():
        lines.append(f"| {shift} | {strength} | {means['confidence']:.4f} | {means['with_inputs']:.4f} |")
    return "\n".join(lines) + "\n"


def batches(seed: int) -> list[dict[str, object]]:
    """Of one world: both estimates and the true accuracy of each batch."""
    world = World(seed)
    model = LogisticRegression(max_iter=500) if seed % 2 == 0 else HistGradientBoostingClassifier(max_iter=60)
    model.fit(*world.drawn(3_000))
    inputs, labels = world.drawn(REFERENCE_ROWS[seed % 3])
    confidence, right = asked(model, inputs, labels)
    reference = ConfidenceReference(confidence, right)
    learned = RightProbability(reference.calibrated(confidence), right, inputs)
    lines: list[dict[str, object]] = []
    for shift in SHIFTS:
        for strength in (0.0, 0.5, 1.0):
            inputs, labels = world.drawn(5_000, shift, strength)
            confidence, right = asked(model, inputs, labels)
            calibrated = reference.calibrated(confidence)
            lines.append(
                {
                    "reference_rows": REFERENCE_ROWS[seed % 3],
                    "shift": shift,
                    "strength": strength,
                    "true_accuracy": right.mean(),
                    "confidence": calibrated.mean(),
                    "with_inputs": learned.of(calibrated, inputs).mean(),
                    "confirmed": learned.share,
                }
            )
    return lines


def asked(model: LogisticRegression | HistGradientBoostingClassifier, inputs: np.ndarray, labels: np.ndarray) -> Rows:
    """Confidence (N,), and whether the predicted class is right (N,)."""
    probabilities = model.predict_proba(inputs)
    return probabilities.max(axis=1), probabilities.argmax(axis=1) == labels


BENCHMARKS = {"simulated_streams": Benchmark(jobs, table)}
