"""Batches of a deployed model's table: files of a folder, or parts of one table by time or by number of rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from shiftcal.core.errors import DataUnavailableError, InvalidInputError
from shiftcal.data.table_files import is_table_file, read_table_file
from shiftcal.faces.monitoring.periods import PERIODS


class TableBatch(NamedTuple):
    """A file that has not been read yet, or a part of a table that has."""

    name: str
    state: str
    """What differs once rows have joined it."""
    content: Any

    def frame(self) -> Any:
        """The rows."""
        return read_table_file(self.content) if isinstance(self.content, Path) else self.content


def table_batches(
    paths: Sequence[Path], *, time: str | None = None, every: str | None = None, rows: int | None = None
) -> Iterator[TableBatch]:
    """The batches of files and folders in order.

    Args:
        paths: tables, and folders whose tables are taken in the order of their names.
        time: column by which a table is split: each value is a batch, or each period with `every`.
        every: a period of `PERIODS`.
        rows: or so many rows are a batch; what is left over at the end is none.

    Raises:
        DataUnavailableError: there is nothing at a path.
        InvalidInputError: the way to split a table does not fit it.
    """
    if rows is not None and time is not None:
        raise InvalidInputError("expected a way to split tables, by time (--time) or by rows (--rows), got both")
    if every is not None and time is None:
        raise InvalidInputError("--every: expected the column that has the time too (--time)")
    for path in batch_files(paths):
        if rows is None and time is None:
            yield TableBatch(path.name, f"{path.stat().st_size} bytes", path)
        else:
            frame = read_table_file(path)
            yield from _by_rows(frame, path, rows) if rows is not None else _by_time(frame, path, str(time), every)


def batch_files(paths: Sequence[Path]) -> Iterator[Path]:
    """The tables among paths and in folders.

    Raises:
        DataUnavailableError: there is none.
    """
    for path in paths:
        if not path.is_dir():
            if not path.exists():
                raise DataUnavailableError(f"no table at {str(path)!r}")
            yield path
            continue
        found = sorted(file for file in path.iterdir() if is_table_file(file))
        if not found:
            raise DataUnavailableError(f"{str(path)!r}: expected tables, such as .csv or .parquet files")
        yield from found


def _by_rows(frame: Any, path: Path, rows: int) -> Iterator[TableBatch]:
    for start in range(0, len(frame) - rows + 1, rows):
        part = frame[start : start + rows]
        yield TableBatch(f"{path.stem} rows {start + 1}-{start + rows}", f"{rows} rows", part)


def _by_time(frame: Any, path: Path, time: str, every: str | None) -> Iterator[TableBatch]:
    if time not in frame.columns:
        raise InvalidInputError(f"{str(path)!r} has no column {time!r}; it has {', '.join(map(str, frame.columns))}")
    for name, part in frame.groupby(_periods(frame[time], every), sort=True):
        yield TableBatch(str(name), f"{len(part)} rows", part)


def _periods(times: Any, every: str | None) -> Any:
    if every is None:
        return times
    import pandas

    try:
        return pandas.to_datetime(times).dt.tz_localize(None).dt.to_period(PERIODS[every])
    except (ValueError, TypeError) as error:
        raise InvalidInputError(f"column {times.name!r}: expected dates: {error}") from error
