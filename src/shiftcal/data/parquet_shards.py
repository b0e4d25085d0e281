"""Pictures in a column of parquet files: of bytes, or of `{bytes, path}` as of Hugging Face, with labels beside.

A row can't be had alone: whole row groups are read, of which the last two are kept. In order that costs nothing; at
random, as training asks for them, it costs a row group for a picture.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from shiftcal.core.errors import InvalidInputError, UnknownNameError
from shiftcal.core.progress import progress_bar
from shiftcal.data.domains import LabelledDomain, UnlabelledDomain
from shiftcal.data.frames import import_pyarrow
from shiftcal.data.image_files import DEFAULT_IMAGE_SIZE, Domain
from shiftcal.data.image_formats import ImageFormat
from shiftcal.data.inputs import Inputs
from shiftcal.data.labels import class_numbers
from shiftcal.data.shards import ShardInputs, in_own_channels

_LABEL_COLUMN = "label"


class ParquetInputs(ShardInputs):
    """Pictures in a column of parquet files."""

    def __init__(
        self, groups: Sequence[_RowGroup], column: str, names: Sequence[str], image_format: ImageFormat
    ) -> None:
        super().__init__(names, image_format)
        self.groups = groups
        self.column = column
        self._starts = np.cumsum([0, *(group.num_rows for group in groups)])

    @property
    def num_bytes(self) -> int:
        """See `ShardInputs`."""
        return sum(group.num_bytes for group in self.groups)

    def read(self, row: int) -> bytes:
        """See `ShardInputs`."""
        number = int(np.searchsorted(self._starts, row, side="right")) - 1
        group = self.groups[number]
        with _ONE_READER:  # threads that decode want rows of the same group at the same time
            values = _column_of_group(group, self.column)
        value = values[row - int(self._starts[number])].as_py()
        content = value.get("bytes") if isinstance(value, dict) else value
        if not content:
            raise InvalidInputError(
                f"{self.names[row]!r}: expected the bytes of a picture in {self.column!r}, got none"
            )
        return bytes(content)

    def _converted(self, image_format: ImageFormat) -> Inputs:
        return ParquetInputs(self.groups, self.column, self.names, image_format)


class _RowGroup(NamedTuple):
    """A part of a parquet file that is read as a whole."""

    path: Path
    number: int
    num_rows: int
    num_bytes: int
    written: int
    """When the file was: what is kept of one is not taken for what another in its place has."""


_ONE_READER = threading.Lock()


@lru_cache(maxsize=2)
def _column_of_group(group: _RowGroup, column: str) -> Any:
    with _readable(group.path) as file:
        values = file.read_row_group(group.number, columns=[column]).column(0)
        if len(values) != group.num_rows:
            raise ValueError(f"{group.num_rows} rows were announced in group {group.number}, it has {len(values)}")
        return values


def picture_column(path: Path) -> str | None:
    """The column of a parquet file that holds pictures: `image`, or the only one of bytes; None if it is a table."""
    found = [field.name for field in _schema(path) if _holds_bytes(field.type)]
    return "image" if "image" in found else found[0] if len(found) == 1 else None


def parquet_domain(paths: Sequence[Path], name: str, label: str | None = None) -> Domain:
    """The pictures of parquet files, with the labels of a column.

    Args:
        paths: of the files, which have the same columns.
        name: of the domain.
        label: the column of labels; None: `label`, where there is one.

    Raises:
        InvalidInputError: a file that can't be read, has no pictures, or labels that are missing.
        UnknownNameError: no column of that name.
    """
    schema = _schema(paths[0])
    column = picture_column(paths[0])
    if column is None:
        raise InvalidInputError(f"{str(paths[0])!r}: expected a column of pictures as bytes, such as 'image'")
    if label is not None and label not in schema.names:
        raise UnknownNameError(f"column of {name!r}", label, schema.names)
    label = label or (_LABEL_COLUMN if _LABEL_COLUMN in schema.names else None)
    groups, names, labels = [], [], []
    for path in progress_bar(paths, "looking into shards", unit="file"):
        found, of_rows = _groups_and_labels(path, column, label)
        groups += found
        names += [f"{path.name}:{row}" for row in range(sum(group.num_rows for group in found))]
        labels += of_rows
    if not names:
        raise InvalidInputError(f"no rows in {name!r}")
    inputs = in_own_channels(ParquetInputs(groups, column, names, ImageFormat(DEFAULT_IMAGE_SIZE, 3)))
    if label is None:
        return UnlabelledDomain(name, inputs)
    num_missing = sum(each is None for each in labels)
    if num_missing:
        raise InvalidInputError(f"{name!r}: {num_missing} of {len(labels)} labels in column {label!r} are missing")
    known = _names_of_classes(schema, label)
    if known and all(isinstance(each, int) and 0 <= each < len(known) for each in labels):
        labels = [known[each] for each in labels]
    return LabelledDomain(name, inputs, *class_numbers(labels))


@contextmanager
def _readable(path: Path) -> Iterator[Any]:
    """A parquet file of pyarrow; whatever that has against the file is an `InvalidInputError`."""
    import_pyarrow()
    from pyarrow import ArrowException, parquet

    try:
        with parquet.ParquetFile(path) as file:
            yield file
    except InvalidInputError:
        raise
    except (ArrowException, OSError, ValueError) as error:
        raise InvalidInputError(f"can't read {str(path)!r} as parquet: {error}") from error


def _schema(path: Path) -> Any:
    with _readable(path) as file:
        return file.schema_arrow


def _groups_and_labels(path: Path, column: str, label: str | None) -> tuple[list[_RowGroup], list[Any]]:
    with _readable(path) as file:
        missing = next((each for each in (column, label) if each and each not in file.schema_arrow.names), None)
        if missing is not None:
            raise InvalidInputError(f"{str(path)!r}: expected the column {missing!r}, as the shards before it have")
        about = [file.metadata.row_group(number) for number in range(file.metadata.num_row_groups)]
        labels = [] if label is None else file.read(columns=[label]).column(0).to_pylist()
        announced = sum(group.num_rows for group in about)
        if label is not None and len(labels) != announced:
            raise ValueError(f"{announced} rows were announced, and it has {len(labels)} labels")
    written = path.stat().st_mtime_ns
    groups = [
        _RowGroup(path, number, group.num_rows, group.total_byte_size, written) for number, group in enumerate(about)
    ]
    return groups, labels


def _holds_bytes(kind: Any) -> bool:
    from pyarrow import types

    if types.is_struct(kind):
        return "bytes" in [kind.field(number).name for number in range(kind.num_fields)]
    return bool(types.is_binary(kind) or types.is_large_binary(kind))


def _names_of_classes(schema: Any, label: str) -> list[str] | None:
    """What Hugging Face wrote down of them."""
    try:
        features = json.loads((schema.metadata or {})[b"huggingface"])["info"]["features"]
        names = features[label]["names"]
    except (KeyError, TypeError, ValueError):
        return None
    return names if isinstance(names, list) and all(isinstance(each, str) for each in names) else None
