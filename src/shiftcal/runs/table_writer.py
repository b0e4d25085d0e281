"""Tables written part by part, in bounded memory: csv, compressed csv, parquet; npz, which is gathered first."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from shiftcal.core.csv_writing import with_safe_text
from shiftcal.core.errors import InvalidInputError, MissingDependencyError
from shiftcal.core.files import written_whole
from shiftcal.data.table_chunks import table_suffix

_SUFFIXES = (".csv", ".tsv", ".parquet", ".npz")

WritePart = Callable[[pd.DataFrame], None]


def check_table_path(path: Path) -> None:
    """Raise `InvalidInputError` if the suffix names no format that can be written."""
    if table_suffix(path) not in _SUFFIXES or (path.suffix != table_suffix(path) and path.suffix != ".gz"):
        known = ", ".join(_SUFFIXES)
        raise InvalidInputError(f"expected an output file that ends in {known} (or .csv.gz), got {path.name!r}")


@contextmanager
def table_writer(path: Path) -> Iterator[WritePart]:
    """A function that adds rows; the file is there once the block has ended well.

    Raises:
        InvalidInputError: a suffix that names no format.
        OutputError: the file can't be written.
    """
    check_table_path(path)
    suffix = table_suffix(path)
    with written_whole(path) as temporary:
        if suffix == ".parquet":
            yield from _parquet(temporary)
        elif suffix == ".npz":
            parts: list[pd.DataFrame] = []
            yield parts.append
            _write_npz(pd.concat(parts, ignore_index=True), temporary)
        else:
            yield from _text(temporary, "\t" if suffix == ".tsv" else ",", "gzip" if path.suffix == ".gz" else None)


def _text(path: Path, separator: str, compression: Any) -> Iterator[WritePart]:
    with pd.io.common.get_handle(path, "w", encoding="utf-8", compression=compression) as opened:
        is_first = True

        def write(part: pd.DataFrame) -> None:
            nonlocal is_first
            safe = with_safe_text(part)
            safe.to_csv(opened.handle, index=False, header=is_first, sep=separator, lineterminator="\n")
            is_first = False

        yield write


def _parquet(path: Path) -> Iterator[WritePart]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise MissingDependencyError("writing parquet", "pyarrow", "tables") from None
    with ExitStack() as stack:
        writers: list[Any] = []

        def write(part: pd.DataFrame) -> None:
            table = pyarrow.Table.from_pandas(part, preserve_index=False)
            if not writers:
                writers.append(stack.enter_context(pyarrow.parquet.ParquetWriter(path, table.schema)))
            writers[0].write_table(table.cast(writers[0].schema))

        yield write


def _write_npz(table: pd.DataFrame, path: Path) -> None:
    arrays = {str(name): column.to_numpy() for name, column in table.items()}
    plain = {name: values.astype(str) if values.dtype == object else values for name, values in arrays.items()}
    with path.open("wb") as stream:
        np.savez_compressed(stream, allow_pickle=False, **plain)
