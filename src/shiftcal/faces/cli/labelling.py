"""The command `label`: which rows to label, and the accuracy from those that came back."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shiftcal.core.errors import InvalidInputError
from shiftcal.faces.cli.answers import Answer
from shiftcal.faces.cli.arguments import positive, seed
from shiftcal.faces.cli.monitoring import declare_tables, told_roles

if TYPE_CHECKING:
    from shiftcal.faces.monitoring.table_roles import TableRoles
    from shiftcal.target.few_labels import LabelPlan

_ROW = "shiftcal_row"


def declare_label(parser: argparse.ArgumentParser) -> None:
    """Arguments of `label`."""
    declare_tables(parser)
    parser.add_argument(
        "--target", type=Path, required=True, metavar="FILE", help="rows without labels, of those columns"
    )
    parser.add_argument("--budget", type=positive, default=100, metavar="N", help="rows to label; default: 100")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write them here (.csv), the most telling first")
    parser.add_argument(
        "--answers", type=Path, metavar="FILE", help="the same file with labels: give the accuracy on all rows"
    )
    parser.add_argument("--seed", type=seed, default=0, help="of the ranking; default: 0")


LABEL_JSON = {
    "rows": "with --out: numbers of the rows to label, from 1, the most telling first",
    "file": "with --out: where they were written",
    "accuracy": "with --answers: of the model on all rows",
    "low": "of its interval",
    "high": "of its interval",
    "level": "with which the interval holds the accuracy",
    "num_labels": "that came back",
    "num_rows": "of the target",
}


def label_command(arguments: argparse.Namespace) -> Answer:
    """`shiftcal label`."""
    from shiftcal.core.files import check_not_an_input
    from shiftcal.data.table_files import read_table_file

    if (arguments.out is None) == (arguments.answers is None):
        raise InvalidInputError("expected either a file for the rows to label (--out) or one with labels (--answers)")
    check_not_an_input(arguments.out, [arguments.reference, arguments.target])
    reference, target = read_table_file(arguments.reference), read_table_file(arguments.target)
    roles = told_roles(arguments, reference)
    plan = _plan(reference, target, roles, arguments.seed)
    if arguments.answers is not None:
        found = plan.estimate(_answers(read_table_file(arguments.answers), plan, roles))
        return Answer(asdict(found), str(found))
    rows = plan.order[: arguments.budget]
    _write(target, rows, roles.label, arguments.out)
    return Answer(
        {"rows": (rows + 1).tolist(), "file": str(arguments.out)},
        f"{len(rows)} rows to label: {arguments.out}. Fill in the column {roles.label!r} from the top, as far as you "
        "get, and give the file as --answers.",
    )


def _plan(reference: Any, target: Any, roles: TableRoles, seed: int) -> LabelPlan:
    from shiftcal.faces.calibration.calibrator import ShiftCalibrator
    from shiftcal.faces.monitoring.labelling import rank_for_labelling
    from shiftcal.faces.monitoring.watched_columns import WatchedColumns
    from shiftcal.target.column_encoding import ColumnEncoder

    columns = WatchedColumns(reference, roles.features)
    encoder = ColumnEncoder(columns.of(reference))
    calibrated = ShiftCalibrator(
        roles.model, features=(lambda frame: encoder.encoded(columns.of(frame))) if roles.features else "none"
    )
    # The reference has labels, and the target need not have them.
    shared = [*roles.model.columns, *roles.features]
    missing = [name for name in shared if name not in target.columns]
    if missing:
        raise InvalidInputError(f"--target: expected the columns of the reference, and there is no {missing[0]!r}")
    calibrated.fit(reference[shared], reference[roles.label], target[shared])
    return rank_for_labelling(calibrated, target[shared], seed=seed)


def _write(target: Any, rows: Any, label: str, path: Path) -> None:
    from shiftcal.core.csv_writing import with_safe_text
    from shiftcal.core.files import written_whole

    chosen = target.iloc[rows].assign(**{label: ""})
    chosen.insert(0, _ROW, rows + 1)
    with written_whole(path) as temporary:
        with_safe_text(chosen).to_csv(temporary, index=False)


def _answers(table: Any, plan: LabelPlan, roles: TableRoles) -> list[Any]:
    """Labels of the first rows of the plan, as the model writes them.

    Raises:
        InvalidInputError: the file is not of this plan, a row was left out, or a label is none of the model's.
    """
    for name in (_ROW, roles.label):
        if name not in table.columns:
            raise InvalidInputError(f"--answers: expected the column {name!r}, as `shiftcal label --out` writes it")
    import pandas

    rows = pandas.to_numeric(table[_ROW], errors="coerce") - 1
    if rows.tolist() != plan.order[: len(table)].tolist():
        raise InvalidInputError(
            "--answers: expected the rows of `shiftcal label --out` in their order, for the same reference, target "
            "and seed; these are others"
        )
    has_label = table[roles.label].notna().to_numpy()
    given = table[roles.label][has_label]
    if not has_label[: len(given)].all():
        skipped = int(table[_ROW][~has_label].iloc[0])
        raise InvalidInputError(
            f"--answers: row {skipped} has no label and later ones have; label from the top and leave none out, for "
            "rows that are hard to label are wrong more often"
        )
    return [_known(label, roles) for label in given]


def _known(label: Any, roles: TableRoles) -> Any:
    """A column with gaps has 1.0 where the model has 1."""
    for known in roles.model.classes:
        if label == known or str(label) == str(known):
            return known
    raise InvalidInputError(f"--answers: label {label!r} is none of {', '.join(map(str, roles.model.classes))}")
