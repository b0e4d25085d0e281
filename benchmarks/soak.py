"""One process that trains, predicts, calibrates, watches, saves and reports for half an hour: nothing may grow.

python benchmarks/soak.py --minutes 30 [--out benchmarks/soak.csv]

Memory (resident set), open files and threads are read after every cycle, once a fifth of the time has passed: what is
loaded and cached on first use is there by then. The exit code is 1 if the median of the last third is above that of
the first third: of files or threads by one or more, of memory by more than 2 %.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import io
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from sklearn.linear_model import LogisticRegression

from shiftcal import AdaptiveClassifier, Monitor, ShiftCalibrator
from shiftcal.core.csv_writing import write_csv
from shiftcal.core.progress import progress_bar
from shiftcal.faces.cli import main as shiftcal

_WARM_UP = 0.2
_MOST_GROWTH = {"megabytes": 0.02, "files": 0.0, "threads": 0.0}
_CLASSES = 3


@dataclass(frozen=True)
class Reading:
    """What the process holds at a moment."""

    minutes: float
    cycles: int
    megabytes: float
    files: int
    threads: int


def read_process(minutes: float, cycles: int) -> Reading:
    """From what Linux says of this process."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return Reading(
        round(minutes, 2),
        cycles,
        round(pages * os.sysconf("SC_PAGE_SIZE") / 2**20, 1),
        len(list(Path("/proc/self/fd").iterdir())),
        len(list(Path("/proc/self/task").iterdir())),
    )


def cycle(number: int) -> None:
    """Everything once, in the working folder, with data of its own."""
    generator = np.random.default_rng(number)
    labels = np.arange(90) % _CLASSES
    source = (3 * np.eye(_CLASSES, 5)[labels] + generator.normal(size=(90, 5))).astype(np.float32)
    target = source + generator.normal(size=5).astype(np.float32)
    classifier = AdaptiveClassifier(epochs=1, random_state=number).fit(source, labels, target)
    classifier.save("model", overwrite=True)
    for _ in AdaptiveClassifier.load("model").iter_predict(target, coverage=0.9):
        pass
    model = LogisticRegression().fit(source, labels)
    calibrated = ShiftCalibrator(model).fit(source, labels, target)
    calibrated.save("calibrated.npz")
    ShiftCalibrator.load("calibrated.npz", model).predict_set(target)
    calibrated.report("calibrated.html")
    monitor = Monitor(model, source, labels)
    monitor.update(target)
    for name, rows in (("source", source), ("target", target)):
        columns = [f"probability_{number}" for number in range(_CLASSES)]
        frame = pd.DataFrame(model.predict_proba(rows), columns=columns)
        (frame.assign(label=labels) if name == "source" else frame).to_csv(f"{name}.csv", index=False)
    np.savez("data.npz", s_x=source, s_y=labels, t_x=target, t_y=labels)
    command("calibrate", "--source", "source.csv", "--target", "target.csv", "--out", "out.csv")
    run = ("fit", "--source", "data.npz:s", "--target", "data.npz:t", "--method", "source-only", "--set", "epochs=1")
    command(*run, "--out", f"run-{number}")
    command("predict", f"run-{number}", "--data", "data.npz:t", "--out", "predictions.csv")
    for path in sorted(Path(f"run-{number}").rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()


def command(*arguments: str) -> None:
    """A command line that has to end well."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as said:
        code = shiftcal([*arguments])
    if code != 0:
        raise SystemExit(f"{' '.join(arguments)}: {said.getvalue()}")


def soak(minutes: float) -> list[Reading]:
    """Cycles for so long, with a reading after each that follows the warm-up."""
    readings: list[Reading] = []
    started, passed, cycles = time.monotonic(), 0.0, 0
    with progress_bar(description="soaking", total=round(60 * minutes), unit="s") as bar:
        while passed < minutes:
            cycle(cycles)
            before, passed, cycles = passed, (time.monotonic() - started) / 60, cycles + 1
            bar.update(round(60 * passed) - round(60 * before))
            if passed >= _WARM_UP * minutes:
                readings.append(read_process(passed, cycles))
    return readings


def growth(readings: Sequence[Reading], name: str) -> tuple[float, float, float]:
    """Medians of the first and of the last third, and the slope by the hour."""
    values = np.array([getattr(reading, name) for reading in readings], dtype=np.float64)
    third = max(len(values) // 3, 1)
    hours = np.array([reading.minutes for reading in readings]) / 60
    slope = float(np.polyfit(hours, values, 1)[0]) if len(values) > 1 else 0.0
    return float(np.median(values[:third])), float(np.median(values[-third:])), slope


def main(arguments: Sequence[str] | None = None) -> int:
    """Soak, say what grew; 1 if anything did."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--out", type=Path, help="table of all readings (.csv)")
    options = parser.parse_args(arguments)
    out = None if options.out is None else options.out.resolve()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        readings = soak(options.minutes)
    leaks = False
    for name, most in _MOST_GROWTH.items():
        first, last, slope = growth(readings, name)
        leaks |= last > first * (1 + most)
        print(f"{name:<10} {first:8.1f} -> {last:8.1f}   {slope:+8.2f} an hour")
    print(f"{readings[-1].cycles} cycles in {readings[-1].minutes:.1f} minutes: {'IT GROWS' if leaks else 'flat'}")
    if out is not None:
        names = [field.name for field in fields(Reading)]
        write_csv(out, names, [asdict(reading).values() for reading in readings])
    return 1 if leaks else 0


if __name__ == "__main__":
    sys.exit(main())
