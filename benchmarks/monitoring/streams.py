"""What `Monitor` says of the monitored streams, chunk by chunk, to be held against CBPE (rivals.py).

python -m benchmarks streams --data FOLDER --out benchmarks/monitoring/streams.csv
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pandas as pd
from benchmarks.frame import Benchmark, Job

from shiftcal.core.progress import progress_bar
from shiftcal.faces.monitoring.monitor import Monitor
from shiftcal.faces.monitoring.table_roles import table_roles

ROWS = 5_000
LABELS = {"car_loan": "repaid", "credit_card": "y_true", "employment": "employed"}
IGNORED = ("timestamp", "year")


def declare(parser: argparse.ArgumentParser) -> None:
    """Where the streams are."""
    parser.add_argument("--data", type=Path, required=True, help="folder with <stream>_reference.parquet")


def jobs(arguments: argparse.Namespace) -> Iterator[Job]:
    """One for each stream."""
    for name in LABELS:
        yield Job({"stream": name}, partial(chunks, arguments.data, name))


def chunks(folder: Path, name: str) -> list[dict[str, object]]:
    """Of one stream: the estimate with its interval, the true accuracy, and which signals raised an alarm."""
    reference, analysis = (pd.read_parquet(folder / f"{name}_{part}.parquet") for part in ("reference", "analysis"))
    ignored = [column for column in IGNORED if column in reference.columns]
    roles = table_roles(reference, label=LABELS[name], ignore=ignored)
    monitor = Monitor(roles.model, reference, reference[roles.label], columns=roles.features)
    lines: list[dict[str, object]] = []
    for number in progress_bar(range(len(analysis) // ROWS), name):
        batch = analysis[number * ROWS : (number + 1) * ROWS]
        status = monitor.update(batch, time=number, y=batch[roles.label])
        signals = {alarm.signal for alarm in status.alarms}
        lines.append(
            {
                "chunk": number,
                "true_accuracy": status.true_accuracy,
                "accuracy": status.accuracy,
                "low": status.low,
                "high": status.high,
                "accuracy_alarm": "accuracy" in signals,
                "drift_alarm": "drift" in signals,
                "shifted_share": status.shifted_share,
            }
        )
    return lines


BENCHMARKS = {"streams": Benchmark(jobs, declare=declare)}
