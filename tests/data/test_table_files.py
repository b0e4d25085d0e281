"""However a table is written, the same frame is read."""

import bz2
import gzip
import io
import lzma
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from shiftcal.core.errors import InvalidInputError, MissingDependencyError
from shiftcal.data.table_files import find_separator, is_table_file, read_table_file

TABLE = pd.DataFrame(
    {
        "größe": [1.5, -2.25, None, 1234.5],
        "city": ["Köln", "Bonn; am Rhein", None, "Ulm"],
        "count": [1, 2, 3, 4],
    }
)


def zipped(content: bytes) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("table.csv", content)
    return stream.getvalue()


def zstandard(content: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.output_stream(sink, compression="zstd") as stream:
        stream.write(content)
    return bytes(sink.getvalue())


COMPRESSIONS: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zip": zipped,
    ".zst": zstandard,
}


def read(path: Path, content: bytes) -> Any:
    path.write_bytes(content)
    return read_table_file(path)


def test_separators_encodings_and_compressions(tmp_path: Path) -> None:
    for separator in ",;\t|":
        text = TABLE.to_csv(sep=separator, index=False)
        for encoding in ("utf-8", "utf-8-sig", "latin-1", "utf-16"):
            pd.testing.assert_frame_equal(read(tmp_path / "table.csv", text.encode(encoding)), TABLE)
    for suffix, compress in COMPRESSIONS.items():
        for kind in (".csv", ".tsv", ".txt"):
            path = tmp_path / f"my.table{kind}{suffix}"
            assert is_table_file(path)
            pd.testing.assert_frame_equal(read(path, compress(text.encode())), TABLE)


@pytest.mark.parametrize("suffix", ["parquet", "feather", "arrow"])
def test_columnar_files(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"table.{suffix}"
    if suffix == "arrow":
        table = pa.Table.from_pandas(TABLE)
        for writer in (pa.ipc.new_file, pa.ipc.new_stream):
            with writer(path, table.schema) as stream:
                stream.write_table(table)
            pd.testing.assert_frame_equal(read_table_file(path), TABLE)
    else:
        getattr(TABLE, f"to_{suffix}")(path)
        pd.testing.assert_frame_equal(read_table_file(path), TABLE)


def test_decimal_commas_and_signs_of_missing_values(tmp_path: Path) -> None:
    frame = read(tmp_path / "t.csv", b"a;b;c\n1,5;x,y;1.234,5\n-2;z;?\n")
    assert frame["a"].tolist() == [1.5, -2.0]
    assert frame["b"].tolist() == ["x,y", "z"]
    assert frame["c"].tolist()[0] == 1234.5
    assert frame["c"].isna().tolist() == [False, True]


def test_names_of_rows_and_texts_as_written(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("key;size\n007;1,5\n1,5;?\n")
    assert read_table_file(path, id_column="key")["key"].tolist() == ["007", "1,5"]
    assert read_table_file(path, as_written=True).to_numpy().tolist() == [["007", "1,5"], ["1,5", "?"]]


@pytest.mark.parametrize(
    ("text", "separator"),
    [
        ("a,b\n1,2", ","),
        ("a;b\n1,5;2,5", ";"),
        ('a\tb\n"1\t,"\t2', "\t"),
        ("a\n1\n2", ","),
        ("a  b\n1 2", r"\s+"),
        ("a;b;c\n1;2\n", ";"),
        ("", ","),
    ],
)
def test_find_separator(text: str, separator: str) -> None:
    assert find_separator(text) == separator


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("empty.csv", b""),
        ("header.csv", b"a,b\n"),
        ("ragged.csv", b"a,b\n1,2\n1,2,3,4\n"),
        ("bytes.csv", bytes(range(256))),
        ("cut.csv.gz", gzip.compress(b"a,b\n1,2\n" * 99, mtime=0)[:30]),
        ("words.csv.zip", b"hello"),
        ("two.csv.zst", b"hello"),
        ("words.parquet", b"hello"),
        ("words.feather", b"hello"),
        ("words.arrow", b"hello"),
        ("doubled.parquet", b""),
    ],
)
def test_what_is_no_table_is_named(name: str, content: bytes, tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match=name):
        read(tmp_path / name, content)


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(MissingDependencyError, match=r"needs 'pyarrow'.*shiftcal\[tables\]"):
        read(tmp_path / "t.parquet", b"PAR1")


def test_quoted_numbers_with_commas(tmp_path: Path) -> None:
    """Decimals where they can be nothing else; thousands stay the text that they are."""
    frame = read(tmp_path / "t.csv", b'a,b\n"61,5","1,000"\n"7,0","2,500"\n')
    assert frame["a"].tolist() == [61.5, 7.0]
    assert frame["b"].tolist() == ["1,000", "2,500"]
