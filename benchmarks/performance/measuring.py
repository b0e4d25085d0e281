"""How times are taken: side by side, in turn, in one thread, as processor time; memory in a process of its own.

A machine that others use too is slower at one moment than at the next. Contenders that take turns are slowed down
alike, so that their ratio stays: it is what the bars are about.
"""

from __future__ import annotations

import json
import math
import multiprocessing
import platform
import resource
import statistics
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

RECORDS = Path(__file__).parent / "records"
_PACKAGES = ("torch", "numpy", "scipy", "scikit-learn", "torchmetrics", "torch-uncertainty")


@dataclass(frozen=True)
class Measurement:
    """One line of a table."""

    what: str
    size: str
    seconds: float
    """Of processor time, median."""
    against: str | None = None
    """What it is compared with."""
    against_seconds: float | None = None
    bar: str | None = None
    """What the ratio is to be."""
    peak_gigabytes: float | None = None
    """Of the process, over what it held before."""


Topic = Callable[[bool], list[Measurement]]
"""From whether it is to be quick to the lines of a table."""


def median_seconds(contenders: Mapping[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """Median processor time of each, after one turn that does not count."""
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for turn in range(repeats + 1):
        for name, run in contenders.items():
            started = time.process_time()
            run()
            if turn:
                seconds[name].append(time.process_time() - started)
    return {name: statistics.median(values) for name, values in seconds.items()}


def in_own_process(function: Callable[..., tuple[float, float]], *arguments: Any) -> tuple[float, float]:
    """Run a function in a new process: memory that others have used before does not count."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(function, arguments)


def measured_once(run: Callable[[], object]) -> tuple[float, float]:
    """Processor seconds, and gigabytes at the peak over what the process held before."""
    before, started = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    run()
    seconds = time.process_time() - started
    return seconds, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 / 1e9


def slope(sizes: list[int], seconds: list[float]) -> float:
    """Of log seconds over log size: 1 is linear, 0 is constant."""
    return statistics.linear_regression(list(map(math.log, sizes)), list(map(math.log, seconds))).slope


def write_record(topic: str, measurements: list[Measurement], *, quick: bool) -> None:
    """Keep the lines of a topic with what they were measured on."""
    record = {
        "commit": _commit(),
        "quick": quick,
        "python": platform.python_version(),
        "processor": platform.machine(),
        "versions": {name: _version(name) for name in _PACKAGES},
        "measurements": [asdict(line) for line in measurements],
    }
    (RECORDS / f"{topic}.json").write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _commit() -> str:
    """The commit, and whether anything differs from it but what measuring writes."""

    def git(*arguments: str) -> str:
        command = ["git", *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False, cwd=RECORDS).stdout.strip()

    changed = git(
        "status", "--porcelain", "--", ":/", ":(exclude,top)benchmarks/performance/records", ":(exclude,top)docs"
    )
    return git("rev-parse", "--short", "HEAD") + ("-dirty" if changed else "")
