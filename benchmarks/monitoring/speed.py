"""Seconds for a batch of 100,000 rows of 50 columns (40 numbers, 10 categories), against a reference of as many."""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Iterator

import numpy as np
import pandas as pd
import torch
from benchmarks.frame import Benchmark, Job

from shiftcal.faces.monitoring.monitor import Monitor
from shiftcal.faces.monitoring.table_roles import table_roles

ROWS, NUMBERS, CATEGORIES = 100_000, 40, 10


def table(seed: int) -> pd.DataFrame:
    """Rows with a model's score and labels that follow it."""
    rng = np.random.default_rng(seed)
    numbers = {f"number_{k}": rng.normal(size=ROWS) for k in range(NUMBERS)}
    categories = {f"category_{k}": rng.choice(list("abcdefgh"), ROWS) for k in range(CATEGORIES)}
    score = 1 / (1 + np.exp(-2 * numbers["number_0"] - numbers["number_1"]))
    return pd.DataFrame({**numbers, **categories, "score": score, "label": rng.random(ROWS) < score})


def measure() -> Iterator[dict[str, float]]:
    """Processor time on one thread, and memory."""
    torch.set_num_threads(1)
    reference, batch = table(0), table(1)
    columns = [name for name in reference.columns if name not in ("score", "label")]
    started = time.process_time()
    monitor = Monitor(
        table_roles(reference, probabilities=["score"], label="label").model,
        reference,
        reference["label"],
        columns=columns,
    )
    ready = time.process_time()
    monitor.update(batch)
    yield {
        "reference_cpu_seconds": ready - started,
        "batch_cpu_seconds": time.process_time() - ready,
        "peak_gib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
    }


def jobs(_: argparse.Namespace) -> Iterator[Job]:
    """The one."""
    yield Job({"rows": ROWS, "columns": NUMBERS + CATEGORIES}, measure)


BENCHMARKS = {"monitor_speed": Benchmark(jobs)}
