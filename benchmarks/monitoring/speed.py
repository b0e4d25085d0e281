"""Seconds for a batch of 100,000 rows of 50 columns (40 numbers, 10 categories), against a reference of as many.

python benchmarks/monitoring/speed.py > benchmarks/monitoring/speed.txt
"""

from __future__ import annotations

import resource
import time

import numpy as np
import pandas as pd

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


def main() -> None:
    """Print seconds and memory."""
    reference, batch = table(0), table(1)
    columns = [name for name in reference.columns if name not in ("score", "label")]
    start = time.perf_counter(), time.process_time()
    monitor = Monitor(
        table_roles(reference, probabilities=["score"], label="label").model,
        reference,
        reference["label"],
        columns=columns,
    )
    ready = time.perf_counter(), time.process_time()
    monitor.update(batch)
    end = time.perf_counter(), time.process_time()
    print(f"reference: {ready[0] - start[0]:.1f} s ({ready[1] - start[1]:.1f} s of processor time)")
    print(f"batch: {end[0] - ready[0]:.1f} s ({end[1] - ready[1]:.1f} s of processor time)")
    print(f"peak memory: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GiB")


if __name__ == "__main__":
    main()
