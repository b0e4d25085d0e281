"""What `Monitor` says of the monitored streams, chunk by chunk, to be held against CBPE (rivals.py).

python benchmarks/monitoring/streams.py --data FOLDER --out benchmarks/monitoring/streams.csv
"""

from __future__ import annotations

import argparse
from pathlib import Path

import pandas as pd

from shiftcal.core.progress import progress_bar
from shiftcal.faces.monitoring.monitor import Monitor
from shiftcal.faces.monitoring.table_roles import table_roles

ROWS = 5_000
LABELS = {"car_loan": "repaid", "credit_card": "y_true", "employment": "employed"}
IGNORED = ("timestamp", "year")


def main() -> None:
    """Write one line for each whole chunk of each stream."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    pd.DataFrame([line for name in LABELS for line in chunks(arguments.data, name)]).round(5).to_csv(
        arguments.out, index=False
    )


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
                "stream": name,
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


if __name__ == "__main__":
    main()
