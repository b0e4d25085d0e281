"""Memory and time of `shiftcal calibrate` on tables of a million and of ten million rows of predictions."""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from benchmarks.frame import Benchmark, Job

SIZES = (1_000_000, 10_000_000)
CHUNK = 500_000
GENERATOR = np.random.default_rng(0)


def predictions(num_rows: int, sharpness: float) -> pd.DataFrame:
    """Three classes; probabilities are right at a sharpness of 1, and too sure above."""
    logits = 2 * GENERATOR.normal(size=(num_rows, 3))
    right, said = (np.exp(logits * power) for power in (1.0, sharpness))
    right, said = (values / values.sum(axis=1, keepdims=True) for values in (right, said))
    labels = (right.cumsum(axis=1) > GENERATOR.random((num_rows, 1))).argmax(axis=1)
    table = pd.DataFrame(said.round(4), columns=[f"probability_{name}" for name in "abc"])
    return table.assign(label=np.array(list("abc"))[labels])


def write_target(path: Path, num_rows: int) -> None:
    """A table with an id and a column that is passed through, part by part."""
    with path.open("w", encoding="utf-8") as stream:
        for start in range(0, num_rows, CHUNK):
            part = predictions(min(CHUNK, num_rows - start), 1.3).drop(columns="label").assign(region="north")
            part.insert(0, "id", np.arange(start, start + len(part)))
            part.to_csv(stream, index=False, header=start == 0)


def measure(num_rows: int) -> Iterator[dict[str, float]]:
    """Processor time of the command, and the most memory that it had."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        predictions(5_000, 1.0).to_csv(folder / "source.csv", index=False)
        write_target(folder / "target.csv", num_rows)
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        files = ["--source", "source.csv", "--target", "target.csv", "--out", "out.csv"]
        command = [sys.executable, "-m", "shiftcal", "calibrate", *files]
        subprocess.run(command, cwd=folder, check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    # Of all that this process ever started: sizes grow, so it is that of this one.
    yield {"cpu_seconds": seconds, "peak_mb": after.ru_maxrss / 1024}


def jobs(_: argparse.Namespace) -> Iterator[Job]:
    """One for each size."""
    for size in SIZES:
        yield Job({"rows": size}, partial(measure, size))


BENCHMARKS = {"large_files": Benchmark(jobs)}
