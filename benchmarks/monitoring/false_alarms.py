"""How often a monitor raises an alarm on batches like the reference, against the stated rate of one in a year.

    python -m benchmarks false_alarms --data FOLDER --out benchmarks/monitoring/false_alarms.csv
    python -m benchmarks estimate_drops --data FOLDER --trials 30 --out benchmarks/monitoring/estimate_drops.csv

Population: the labelled rows of a stream (see rivals.py). Of each simulated year, 10,000 reference rows and 365
batches are drawn from it with replacement, so that all rows are independent. Tests of confidence and drift are run as
they are; the estimate takes seconds, and its part in the alarm (the whole interval below the accuracy on the
reference) is looked at on fewer batches, each with a reference of its own: the drop of the estimate in multiples of
what its interval reaches to the side on which it reaches further, where an alarm needs more than 1.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from benchmarks.frame import Benchmark, Job

from shiftcal.faces.monitoring.monitor import Monitor
from shiftcal.faces.monitoring.table_roles import TableRoles, table_roles
from shiftcal.target.diagnosis import Diagnosis, PriorShift
from shiftcal.target.performance import Estimate

LABELS = {"car_loan": "repaid", "credit_card": "y_true", "employment": "employed"}
IGNORED = ("timestamp", "year")
REFERENCE_ROWS = 10_000
DAYS = 365


class WithoutEstimate(Monitor):
    """All but the estimate, for which the accuracy on the reference stands."""

    def _estimate(self, logits: torch.Tensor, structure: Any) -> Estimate:
        del structure
        prior = PriorShift((), 0.0, 0.0, 0.5, 0.5, 1.0, explains=False)
        found = Diagnosis(self.reference_accuracy_, 0.0, reach=(1.0, 1.0), prior_shift=prior)
        return Estimate(found, {}, (), tuple(self.classes_.tolist()), len(logits))


def declare(parser: argparse.ArgumentParser) -> None:
    """Where the streams are, and how many trials there are to be."""
    parser.add_argument("--data", type=Path, required=True, help="folder with <stream>_reference.parquet")
    parser.add_argument("--streams", nargs="+", choices=LABELS, default=list(LABELS))
    parser.add_argument("--trials", type=int, default=10, help="years, or estimates, of each stream")


def populations(arguments: argparse.Namespace) -> Iterator[tuple[str, pd.DataFrame, TableRoles]]:
    """Each stream's labelled rows, and what their columns are."""
    for name in arguments.streams:
        population = pd.read_parquet(arguments.data / f"{name}_reference.parquet")
        ignored = [column for column in IGNORED if column in population.columns]
        yield name, population, table_roles(population, label=LABELS[name], ignore=ignored)


def years(arguments: argparse.Namespace) -> Iterator[Job]:
    """Of each stream and size of batches."""
    for name, population, roles in populations(arguments):
        for num_rows, seed in product((500, 2_000), range(arguments.trials)):
            key = {"stream": name, "rows": num_rows, "seed": seed}
            yield Job(key, partial(year, population, roles, num_rows, seed))


def estimates(arguments: argparse.Namespace) -> Iterator[Job]:
    """Of each stream."""
    for name, population, roles in populations(arguments):
        for seed in range(arguments.trials):
            yield Job({"stream": name, "rows": 500, "seed": seed}, partial(drop, population, roles, 500, seed))


def year(population: pd.DataFrame, roles: TableRoles, num_rows: int, seed: int) -> list[dict[str, int]]:
    """Batches with an alarm, of either signal and of each."""
    rng = np.random.default_rng(seed)
    monitor = started(WithoutEstimate, population, roles, rng)
    statuses = [monitor.update(drawn(population, num_rows, rng)) for _ in range(DAYS)]
    signals = [{alarm.signal for alarm in status.alarms} for status in statuses]
    return [
        {
            "batches": DAYS,
            "alarms": sum(bool(found) for found in signals),
            "accuracy_alarms": sum("accuracy" in found for found in signals),
            "drift_alarms": sum("drift" in found for found in signals),
        }
    ]


def drop(population: pd.DataFrame, roles: TableRoles, num_rows: int, seed: int) -> list[dict[str, float]]:
    """Of the estimate from the accuracy on the reference, in multiples of what the interval reaches."""
    rng = np.random.default_rng((seed, 1))
    monitor = started(Monitor, population, roles, rng)
    status = monitor.update(drawn(population, num_rows, rng))
    reach = max(status.high - status.accuracy, status.accuracy - status.low)
    return [{"drop": (monitor.reference_accuracy_ - status.accuracy) / reach}]


def started(kind: type[Monitor], population: pd.DataFrame, roles: TableRoles, rng: np.random.Generator) -> Monitor:
    """With a reference of its own."""
    reference = drawn(population, REFERENCE_ROWS, rng)
    return kind(roles.model, reference, reference[roles.label], columns=roles.features)


def drawn(population: pd.DataFrame, num_rows: int, rng: np.random.Generator) -> pd.DataFrame:
    """Rows with replacement."""
    return population.iloc[rng.integers(len(population), size=num_rows)].reset_index(drop=True)


BENCHMARKS = {
    "false_alarms": Benchmark(years, declare=declare),
    "estimate_drops": Benchmark(estimates, declare=declare),
}
