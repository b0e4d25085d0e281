"""Arguments that several commands share, and how numbers are printed."""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import Any

SPEC_HELP = (
    "a folder, an image list, a table (.csv, .parquet, ...), an npz/npy file or a catalog name "
    "(`shiftcal list datasets`)"
)
_MOST = 10_000
_MOST_SEED = 2**32 - 1


def declare_settings(
    parser: argparse.ArgumentParser, owners: str = "the method, the calibrator (calibrator.KEY if in doubt)"
) -> None:
    """`--set`."""
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help=f"an option of {owners} or of training; see `shiftcal list`",
    )


class _SplitNames(argparse.Action):
    """Names with blanks or commas between them."""

    def __call__(
        self, parser: object, namespace: argparse.Namespace, values: Any, option_string: object = None
    ) -> None:
        del parser, option_string
        names = (name.strip() for value in values for name in value.split(","))
        setattr(namespace, self.dest, tuple(filter(None, names)))


def declare_names(
    parser: argparse.ArgumentParser, flag: str, words: str, default: tuple[str, ...] | None = None
) -> None:
    """An option that takes names, with blanks or commas between them."""
    parser.add_argument(flag, nargs="+", action=_SplitNames, default=default, metavar="NAME", help=words)


def declare_table_columns(parser: argparse.ArgumentParser, *, of_source: bool = False) -> None:
    """`--label` and `--id`; of a source also `--ignore` and `--columns`."""
    remembered = "" if of_source else "; default: as in training"
    parser.add_argument("--label", metavar="COLUMN", help=f"of a table, the column of the labels{remembered}")
    parser.add_argument("--id", metavar="COLUMN", help=f"of a table, a column that names the rows{remembered}")
    if of_source:
        declare_names(parser, "--ignore", "of a table, columns that are no inputs")
        declare_names(parser, "--columns", "of a table, the inputs; default: all others")


def declare_learning_curve(parser: argparse.ArgumentParser) -> None:
    """`--learning-curve`."""
    parser.add_argument(
        "--learning-curve",
        action="store_true",
        help="evaluate the labelled test data after each epoch of training too; changes nothing else",
    )


def declare_download(parser: argparse.ArgumentParser) -> None:
    """`--download`."""
    parser.add_argument("--download", action="store_true", help="fetch catalog data sets that are absent")


def declare_json(parser: argparse.ArgumentParser) -> None:
    """`--json`."""
    parser.add_argument("--json", action="store_true", help="print one JSON document instead of text")


def files_of_spec(spec: str | None) -> list[Path]:
    """The file that a spec may name, whatever it says of what is in it."""
    if spec is None:
        return []
    plain = re.sub(r"^unlabell?ed:", "", spec)
    return [Path(plain), Path(re.sub(r"(\.npz)[:#].*", r"\1", plain, flags=re.IGNORECASE))]


def seed(text: str) -> int:
    """A whole number that random numbers can start from."""
    if not (text.isdecimal() and len(text) <= len(str(_MOST_SEED)) and int(text) <= _MOST_SEED):
        raise argparse.ArgumentTypeError(f"expected a whole number from 0 to {_MOST_SEED:,}, got {text[:50]}")
    return int(text)


def positive(text: str) -> int:
    """A whole number of at least 1 and not beyond all measure."""
    value = int(text) if text.isdecimal() and len(text) <= len(str(_MOST)) else 0
    if not 1 <= value <= _MOST:
        raise argparse.ArgumentTypeError(
            f"expected a whole number of at least 1 and at most {_MOST:,}, got {text[:50]}"
        )
    return value


def print_metrics(metrics: object) -> None:
    """Numbers by domain and name, one in a line."""
    assert isinstance(metrics, dict)
    for domain, numbers in metrics.items():
        print(f"{domain}:")
        for name, value in numbers.items():
            written = "-" if value is None else f"{value:.4f}" if isinstance(value, float) else str(value).lower()
            print(f"  {name:<32}{written}")
