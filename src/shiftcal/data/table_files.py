"""Files that hold a table: separated texts of any separator, encoding and compression, parquet, feather, Arrow."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import lzma
import zipfile
import zlib
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from shiftcal.core.errors import InvalidInputError
from shiftcal.data.frames import as_frame, import_pandas, import_pyarrow

TEXT_SUFFIXES = (".csv", ".tsv", ".txt")
COMPRESSION_SUFFIXES = (".gz", ".bz2", ".xz", ".zip", ".zst")
BINARY_SUFFIXES = (".parquet", ".feather", ".arrow")

_SEPARATORS = ",;\t|"
_LINES_LOOKED_AT = 50
# What stands for a missing value beside those that pandas knows.
_MISSING = ("?", "-", "--")
_BYTE_ORDER_MARKS = {b"\xef\xbb\xbf": "utf-8-sig", b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}
# A number as it is written where the comma is not the separator: 1.234,5
_WITH_COMMA = r"-?(\d+|\d{1,3}(\.\d{3})+)(,\d+)?"
_THOUSANDS = r"-?\d{1,3}(,\d{3})+"
# What pandas and Arrow raise for files that they can't read are children of ValueError and OSError.
_UNREADABLE = (OSError, EOFError, ValueError, csv.Error, zlib.error, lzma.LZMAError, zipfile.BadZipFile, RuntimeError)


def is_table_file(path: Path) -> bool:
    """Whether the name is that of a table."""
    return _text_suffix(path) is not None or path.suffix.lower() in BINARY_SUFFIXES


def read_table_file(path: Path, *, id_column: str | None = None, as_written: bool = False) -> Any:
    """The table as a pandas frame.

    Args:
        path: of the file.
        id_column: of texts, a column that is kept as it is written: 007 is no number there.
        as_written: of texts, all columns are kept so.

    Raises:
        InvalidInputError: it can't be read, or is empty.
        MissingDependencyError: pyarrow is not installed.
    """
    pandas = import_pandas()
    try:
        is_text = _text_suffix(path) is not None
        if is_text:
            table = _read_text(_decoded(_content(path)), pandas, id_column, as_written)
        else:
            table = _read_binary(path, pandas)
    except _UNREADABLE as error:
        raise InvalidInputError(f"can't read {str(path)!r} as a table: {error}") from error
    return as_frame(table, str(path))


def _text_suffix(path: Path) -> str | None:
    """The suffix of a table of texts, that of a compression aside; None for other files."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] in COMPRESSION_SUFFIXES:
        suffixes.pop()
    return suffixes[-1] if suffixes and suffixes[-1] in TEXT_SUFFIXES else None


def _read_binary(path: Path, pandas: Any) -> Any:
    import_pyarrow()
    if path.suffix.lower() == ".parquet":
        return pandas.read_parquet(path)
    if path.suffix.lower() == ".feather":
        return pandas.read_feather(path)
    from pyarrow import ipc

    content = path.read_bytes()
    is_file = content.startswith(b"ARROW1")  # else a stream
    return (ipc.open_file if is_file else ipc.open_stream)(content).read_all()


def _content(path: Path) -> bytes:
    read = _DECOMPRESSED.get(path.suffix.lower())
    return path.read_bytes() if read is None else read(path)


def _unzipped(path: Path) -> bytes:
    with zipfile.ZipFile(path) as archive:
        names = [name for name in archive.namelist() if not name.endswith("/") and not name.startswith("__MACOSX")]
        if len(names) != 1:
            raise ValueError(f"expected one file in the archive, got {len(names)}")
        return archive.read(names[0])


def _from_zstandard(path: Path) -> bytes:
    with import_pyarrow().input_stream(path, compression="zstd") as stream:
        return bytes(stream.read())


_DECOMPRESSED: dict[str, Callable[[Path], bytes]] = {
    ".gz": lambda path: gzip.decompress(path.read_bytes()),
    ".bz2": lambda path: bz2.decompress(path.read_bytes()),
    ".xz": lambda path: lzma.decompress(path.read_bytes()),
    ".zip": _unzipped,
    ".zst": _from_zstandard,
}


def _decoded(content: bytes) -> str:
    """Texts by their byte order mark, else UTF-8, else as Windows writes them in Western Europe."""
    for mark, encoding in _BYTE_ORDER_MARKS.items():
        if content.startswith(mark):
            return content.decode(encoding)
    if b"\0" in content[:4096]:
        raise ValueError("it holds bytes that are no text")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        return content.decode("cp1252", errors="replace")


def typed_table(written: Any, *, id_column: str | None, texts: Collection[str]) -> Any:
    """A part of a table, with the texts of a text file as they are, as if it had been read with types.

    Args:
        written: a pandas frame of texts.
        id_column: a column that is kept as it is written.
        texts: columns that are texts in the source. In a part that has numbers alone there, they are texts too.
    """
    pandas = import_pandas()
    typed = _parsed(written.to_csv(index=False), ",", pandas, id_column)
    for name in texts:
        if name in typed and pandas.api.types.is_numeric_dtype(typed[name].dtype):
            typed[name] = written[name].reset_index(drop=True).where(typed[name].notna())
    return typed


def _read_text(text: str, pandas: Any, id_column: str | None, as_written: bool) -> Any:
    separator = find_separator(text)
    if as_written:
        return pandas.read_csv(io.StringIO(text), sep=separator, dtype=str, keep_default_na=False)
    return _parsed(text, separator, pandas, id_column)


def _parsed(text: str, separator: str, pandas: Any, id_column: str | None) -> Any:
    frame = pandas.read_csv(
        io.StringIO(text),
        sep=separator,
        dtype={id_column: str},
        na_values=list(_MISSING),
        skipinitialspace=True,
        low_memory=False,
    )
    for name in frame.columns[[pandas.api.types.is_string_dtype(kind) for kind in frame.dtypes]]:
        values = frame[name]
        texts = values.dropna().astype(str)
        # Where commas separate, quoted ones may stand between thousands.
        has_thousands = separator == "," and texts.str.fullmatch(_THOUSANDS).all()
        if name != id_column and len(texts) and texts.str.fullmatch(_WITH_COMMA).all() and not has_thousands:
            frame[name] = pandas.to_numeric(values.str.replace(".", "").str.replace(",", "."))
    return frame


def find_separator(text: str) -> str:
    """What separates the values of the first lines: of those that cut all lines alike, what cuts them most often.

    Where none does, blanks, if they cut all lines alike; else the comma.
    """
    lines = [line for line in text[:100_000].splitlines() if line.strip()][:_LINES_LOOKED_AT]
    if len(text) > 100_000:
        lines = lines[:-1]
    widths = {mark: {len(row) for row in csv.reader(lines, delimiter=mark)} for mark in _SEPARATORS}
    alike = {mark: width.pop() for mark, width in widths.items() if len(width) == 1}
    best = max(alike, key=lambda mark: alike[mark], default=",")
    if alike.get(best, 1) > 1:
        return best
    in_blanks = {len(line.split()) for line in lines}
    header_marks = {mark: lines[0].count(mark) for mark in _SEPARATORS} if lines else {",": 1}
    if len(in_blanks) == 1 and in_blanks != {1} and not any(header_marks.values()):
        return r"\s+"
    return max(header_marks, key=lambda mark: header_marks[mark])
