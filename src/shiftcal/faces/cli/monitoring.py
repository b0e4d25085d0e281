"""Commands on a deployed model: monitor."""

from __future__ import annotations

import argparse
import hashlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shiftcal.faces.cli.answers import Answer
from shiftcal.faces.cli.arguments import declare_names, positive
from shiftcal.faces.monitoring.periods import PERIODS

if TYPE_CHECKING:
    from shiftcal.faces.monitoring.table_roles import TableRoles
    from shiftcal.runs.monitor_log import MonitorLog
    from shiftcal.target.batch_status import BatchStatus

_ALARM = 1


def declare_tables(parser: argparse.ArgumentParser) -> None:
    """Arguments for what the columns of tables are."""
    parser.add_argument(
        "--reference",
        type=Path,
        required=True,
        metavar="FILE",
        help="labelled rows of when all was well: .csv, .parquet",
    )
    declare_names(parser, "--probabilities", "columns of probabilities; default: guessed, and said")
    parser.add_argument(
        "--label", metavar="COLUMN", help="column of labels of the reference; default: guessed, and said"
    )
    declare_names(parser, "--features", "columns to watch; default: all others")
    declare_names(parser, "--ignore", "columns that are no features", default=())


def declare_monitor(parser: argparse.ArgumentParser) -> None:
    """Arguments of `monitor`."""
    declare_tables(parser)
    parser.add_argument(
        "--batches",
        type=Path,
        nargs="+",
        required=True,
        metavar="PATH",
        help="tables, or folders of tables, in order",
    )
    parser.add_argument("--time", metavar="COLUMN", help="split tables by this column")
    parser.add_argument("--every", choices=PERIODS, help="period of --time; default: each value is a batch")
    parser.add_argument("--rows", type=positive, metavar="N", help="or split tables into batches of N rows")
    parser.add_argument(
        "--state", type=Path, metavar="FILE", help="where to go on from; seen batches are not done again"
    )
    parser.add_argument("--report", type=Path, metavar="FILE", help="write a page with the time lines (.html)")
    declare_names(parser, "--watch", "accuracy, drift or both (default)", default=("accuracy", "drift"))
    parser.add_argument("--false-alarms-per-year", type=float, default=1.0, metavar="X", help="default: 1")
    parser.add_argument("--batches-per-year", type=float, default=365.0, metavar="X", help="default: 365, one a day")


MONITOR_JSON = {
    "alarm": "whether a batch of this call or the newest on record has one",
    "reference_accuracy": "of the model on the reference",
    "classes": "in the order of class_frequencies",
    "batches": "[{time, num_rows, accuracy, low, high, confidence, shifted_share, kind_of_shift, class_frequencies,\n"
    "  drift: [{name, kind, distance, p_value, corrected}], alarms: [{signal, words}], alarm, true_accuracy, ...}]",
}


def monitor_command(arguments: argparse.Namespace) -> Answer:
    """`shiftcal monitor`: 0, or 1 if a batch of this call or the newest on record has an alarm."""
    from shiftcal.core.files import check_not_an_input, check_writable_folder
    from shiftcal.core.progress import progress_bar
    from shiftcal.data.table_files import read_table_file
    from shiftcal.faces.monitoring.batches import batch_files, table_batches
    from shiftcal.faces.monitoring.monitor import FEWEST_ROWS, Monitor
    from shiftcal.runs.monitor_log import MonitorLog, ReferenceCard
    from shiftcal.runs.reporting.monitor_page import write_monitor_page

    inputs = [arguments.reference, *batch_files(arguments.batches)]
    check_not_an_input(arguments.state, inputs)
    check_not_an_input(arguments.report, [*inputs, arguments.state])
    for path in (arguments.report, arguments.state):
        if path is not None:
            check_writable_folder(path.absolute().parent)
    reference = read_table_file(arguments.reference)
    roles = told_roles(arguments, reference)
    monitor = Monitor(
        roles.model,
        reference,
        reference[roles.label],
        columns=roles.features,
        watch=arguments.watch,
        false_alarms_per_year=arguments.false_alarms_per_year,
        batches_per_year=arguments.batches_per_year,
    )
    card = ReferenceCard(
        fingerprint(arguments.reference, roles),
        len(reference),
        monitor.reference_accuracy_,
        tuple(map(str, roles.model.classes)),
    )
    log = MonitorLog(arguments.state, card)
    batches = list(table_batches(arguments.batches, time=arguments.time, every=arguments.every, rows=arguments.rows))
    unseen = [batch for batch in batches if not log.has(batch.name, batch.state)]
    new: list[BatchStatus] = []
    for batch in progress_bar(unseen, "batches"):
        frame = batch.frame()
        if len(frame) < FEWEST_ROWS:
            print(f"shiftcal: {batch.name} is left out: {len(frame)} rows are too few", file=sys.stderr)
            continue
        monitor.history = log.before(batch.name)
        status = monitor.update(frame, time=batch.name, y=_labels(frame, roles.label))
        log.append(status, batch.state)
        new.append(status)
        print(status, flush=True)
    if arguments.report is not None:
        write_monitor_page(log.statuses, card, arguments.report, title=f"Monitor of {arguments.reference.stem}")
    return _concluded(arguments, log, new, num_seen=len(batches) - len(unseen))


def _concluded(
    arguments: argparse.Namespace, log: MonitorLog, new: Sequence[BatchStatus], *, num_seen: int
) -> Answer:
    has_alarm = any(status.alarm for status in (*new, *log.statuses[-1:]))
    alarms = sum(status.alarm for status in new)
    text = (
        f"{len(new)} new batches, {alarms} with an alarm; {num_seen} seen before; accuracy on the reference: "
        f"{log.reference.accuracy:.1%}"
    )
    if has_alarm and not alarms:
        text += "; the newest batch on record has an alarm"
    if arguments.report is not None:
        text += f"\nreport: {arguments.report}"
    plain = {
        "alarm": has_alarm,
        "reference_accuracy": log.reference.accuracy,
        "classes": log.reference.classes,
        "batches": [status.as_plain() for status in new],
    }
    return Answer(plain, text, _ALARM if has_alarm else 0)


def told_roles(arguments: argparse.Namespace, reference: Any) -> TableRoles:
    """What the columns are; said on standard error."""
    from shiftcal.faces.monitoring.table_roles import table_roles

    ignored = {name for name in (*arguments.ignore, getattr(arguments, "time", None)) if name in reference.columns}
    roles = table_roles(
        reference,
        probabilities=arguments.probabilities,
        label=arguments.label,
        features=arguments.features,
        ignore=tuple(ignored | set(arguments.ignore)),
    )
    print(f"shiftcal: {roles.words()}", file=sys.stderr)
    return roles


def fingerprint(path: Path, roles: TableRoles) -> str:
    """Of a reference file, and of what its columns are taken for."""
    with path.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256")
    digest.update(repr((roles.model.columns, roles.model.classes, roles.label, roles.features)).encode())
    return digest.hexdigest()


def _labels(frame: Any, label: str) -> Any:
    """Where all have come; they are shown, and serve for nothing else."""
    return frame[label] if label in frame.columns and not frame[label].isna().any() else None
