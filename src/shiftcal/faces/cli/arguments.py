"""Arguments that several commands share."""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shiftcal.data.table_encoder import TableColumns

SPEC_HELP = (
    "a folder, an image list, shards (.tar, .parquet), a table (.csv, .parquet, ...), an npz/npy file or a catalog "
    "name (`shiftcal list datasets`)"
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


def declare_backbone(parser: argparse.ArgumentParser, words: str) -> None:
    """`--backbone` and `--freeze-backbone`."""
    parser.add_argument("--backbone", default="auto", metavar="NAME", help=words)
    parser.add_argument(
        "--freeze-backbone",
        action="store_true",
        help="extract the features of the (pretrained) backbone once, and train a head on them",
    )


def table_columns(arguments: argparse.Namespace) -> TableColumns:
    """What these options say."""
    from shiftcal.data.table_encoder import TableColumns

    of_source = {name: getattr(arguments, name, None) for name in ("ignore", "columns")}
    return TableColumns(
        label=arguments.label, id=arguments.id, ignore=of_source["ignore"] or (), columns=of_source["columns"]
    )


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


def declare_engine(parser: argparse.ArgumentParser, work: str) -> None:
    """`--engine` and `--jobs`."""
    parser.add_argument(
        "--engine",
        default="local",
        metavar="local|ray[:ADDRESS]",
        help=f"what {work}: processes of this machine, or the tasks of a Ray cluster (docs/cluster.md)",
    )
    parser.add_argument(
        "--jobs",
        type=positive,
        help="how many at a time; by default 1, on Ray as many as the cluster has room for",
    )


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


def declare_first_seed(parser: argparse.ArgumentParser, purpose: str) -> None:
    """Which seeds `--seeds` counts."""
    parser.add_argument("--first-seed", type=seed, default=0, metavar="N", help=f"{purpose}; default 0")
