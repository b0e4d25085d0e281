"""Tables in files of other programs in chunks, for files that are larger than memory.

Cells of text files stay the text that they are, so that they can be written again as they were.
"""

from __future__ import annotations

import codecs
import csv
import warnings
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from shiftcal.core.errors import DataUnavailableError, InvalidInputError, MissingDependencyError
from shiftcal.data.table_files import TEXT_SUFFIXES, find_separator

# Those of `table_files` that can be read in parts.
COMPRESSIONS = (".gz", ".bz2", ".xz", ".zip")
TABLE_SUFFIXES = (*TEXT_SUFFIXES, ".parquet", ".feather")

_ROWS_AT_ONCE = 100_000
# Bytes from which encoding and separator are told.
_LOOKED_AT = 1 << 20
_DAMAGED = (OSError, EOFError, zlib.error, zipfile.BadZipFile, UnicodeError, ValueError, csv.Error)


def table_suffix(path: Path) -> str:
    """The suffix that names the format, without that of a compression."""
    bare = path.with_suffix("") if path.suffix.lower() in COMPRESSIONS else path
    return bare.suffix.lower()


def table_chunks(
    path: Path, rows_at_once: int = _ROWS_AT_ONCE, columns: list[str] | None = None
) -> Iterator[pd.DataFrame]:
    """A table in parts of so many rows, in bounded memory; with columns alone that are named; texts stay texts.

    Raises:
        DataUnavailableError: there is no such file.
        InvalidInputError: it is no such table.
    """
    if not path.is_file():
        raise DataUnavailableError(f"no table at {str(path)!r}")
    suffix = table_suffix(path)
    if suffix not in TABLE_SUFFIXES:
        known = f"{' or '.join(TABLE_SUFFIXES)} (text also with {', '.join(COMPRESSIONS)})"
        raise InvalidInputError(f"expected a file that ends in {known}, got {path.name!r}")
    try:
        if suffix in TEXT_SUFFIXES:
            yield from _text_chunks(path, rows_at_once, columns)
        else:
            yield from _arrow_chunks(path, suffix, rows_at_once, columns)
    except (MissingDependencyError, InvalidInputError):
        raise
    except _DAMAGED as error:
        raise InvalidInputError(f"{str(path)!r} is not a table: {error}") from error


def _text_chunks(path: Path, rows_at_once: int, columns: list[str] | None) -> Iterator[pd.DataFrame]:
    encoding, separator = _text_format(path)
    settings: dict[str, Any] = {
        "sep": separator,
        "encoding": encoding,
        "dtype": object,
        "keep_default_na": False,
        "index_col": False,
        "usecols": columns,
        "chunksize": rows_at_once,
    }
    with warnings.catch_warnings():
        # Rows with more cells than the header has names: pandas would drop what is too much.
        warnings.simplefilter("error", pd.errors.ParserWarning)
        try:
            head = pd.read_csv(
                path, sep=separator, encoding=encoding, header=None, nrows=1, dtype=object, keep_default_na=False
            )
            _check_names(path, head.iloc[0].tolist())
            with pd.read_csv(path, **settings) as chunks:
                for chunk in chunks:
                    if chunk.isna().to_numpy().any():
                        row = int(chunk.index[chunk.isna().any(axis=1)][0])
                        raise InvalidInputError(f"{str(path)!r}: row {row + 1} has fewer cells than the header")
                    yield chunk
        except (pd.errors.EmptyDataError, pd.errors.ParserWarning) as error:
            raise InvalidInputError(f"{str(path)!r} is not a table: {error}") from error


def _check_names(path: Path, names: list[str]) -> None:
    """pandas would give the second of two columns of one name another."""
    doubled = [name for name in names if names.count(name) > 1]
    if doubled:
        raise InvalidInputError(
            f"{str(path)!r}: expected columns of different names, got {doubled[0]!r} more than once"
        )


def _text_format(path: Path) -> tuple[str, str]:
    """Encoding and separator, by the beginning of the file."""
    with pd.io.common.get_handle(path, "rb", compression="infer", is_text=False) as opened:
        start: bytes = opened.handle.read(_LOOKED_AT)
    if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        encoding = "utf-16"
    else:
        try:
            # A character may be cut off at the end of what was read.
            codecs.getincrementaldecoder("utf-8")().decode(start)
            encoding = "utf-8-sig"
        except UnicodeDecodeError:
            encoding = "cp1252"
    return encoding, find_separator(start.decode(encoding, errors="replace"))


def _arrow_chunks(path: Path, suffix: str, rows_at_once: int, columns: list[str] | None) -> Iterator[pd.DataFrame]:
    try:
        import pyarrow.dataset
    except ImportError:
        raise MissingDependencyError(f"reading {suffix[1:]}", "pyarrow", "tables") from None
    table = pyarrow.dataset.dataset(path, format=suffix[1:])
    for batch in table.to_batches(batch_size=rows_at_once, columns=columns):
        if len(batch):
            yield batch.to_pandas()
