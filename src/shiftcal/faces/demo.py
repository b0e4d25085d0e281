"""The demo: three methods on real digits under shift, from nothing but what ships inside packages."""

from __future__ import annotations

import os
from pathlib import Path

from shiftcal.runs.comparison import ComparisonPlan, parse_contenders, run_comparison
from shiftcal.runs.engines import LocalProcesses
from shiftcal.runs.reporting import ComparisonTable
from shiftcal.runs.tasks import SUITES

METHODS = "source-only,source-only+temperature,calibrated"


def run_demo(out: Path, *, num_seeds: int = 3, jobs: int | None = None) -> ComparisonTable:
    """Compare source-only training, temperature and target scaling on the demo suite."""
    plan = ComparisonPlan(
        tasks=SUITES["demo"],
        contenders=parse_contenders(METHODS),
        num_seeds=num_seeds,
        # Between the 12 pixels of one data set and the 28 of the other, and quick enough for a demo.
        image_size=16,
        settings=("epochs=15",),
    )
    processes = jobs or min(2, os.cpu_count() or 1)
    print(f"training {METHODS} on {len(plan.tasks)} tasks x {num_seeds} seeds, {processes} at a time", flush=True)
    return run_comparison(plan, out, engine=LocalProcesses(processes))
