"""Frames of any make (pandas, polars, Arrow, DuckDB) and arrays of mixed values as pandas frames."""

from __future__ import annotations

from typing import Any

import numpy as np

from shiftcal.core.errors import InvalidInputError, MissingDependencyError


def import_pandas() -> Any:
    """The module, imported when it is needed: it takes half a second."""
    import pandas

    return pandas


def import_pyarrow() -> Any:
    """The module.

    Raises:
        MissingDependencyError: it is not installed.
    """
    try:
        import pyarrow
    except ImportError:
        raise MissingDependencyError("reading this kind of table", "pyarrow", "tables") from None
    return pyarrow


def is_frame(values: Any) -> bool:
    """Whether the values have columns with names: a frame, an Arrow table, a DuckDB relation."""
    return hasattr(values, "columns") and any(
        hasattr(values, name) for name in ("__arrow_c_stream__", "__dataframe__", "to_pandas", "iloc")
    )


def as_frame(values: Any, name: str) -> Any:
    """A pandas frame whose column names are text and whose rows are numbered from 0.

    Args:
        values: see the module; an array of mixed values gets the column names x0, x1, ...
        name: what the user calls it, for messages.

    Raises:
        InvalidInputError: no columns or no rows, two columns of one name, or text that is damaged.
        MissingDependencyError: for frames of other makes, pyarrow is not installed.
    """
    pandas = import_pandas()
    try:
        frame = _converted(values, pandas)
    except UnicodeError as error:  # half of a surrogate pair, which no file or frame can hold
        raise InvalidInputError(
            f"{name}: expected text of whole characters, got some that is not: {error}"
        ) from error
    frame = frame.set_axis([str(column) for column in frame.columns], axis=1).reset_index(drop=True)
    if 0 in frame.shape:
        raise InvalidInputError(f"{name}: expected a table with at least one row and one column, got {frame.shape}")
    doubled = frame.columns[frame.columns.duplicated()]
    if len(doubled):
        raise InvalidInputError(f"{name}: expected columns of different names, got {doubled[0]!r} more than once")
    return frame


def _converted(values: Any, pandas: Any) -> Any:
    if isinstance(values, pandas.DataFrame):
        return values
    if hasattr(values, "__arrow_c_stream__"):
        return import_pyarrow().table(values).to_pandas(date_as_object=False)
    if hasattr(values, "to_pandas"):
        return values.to_pandas()
    array = np.asarray(values, dtype=object)
    return pandas.DataFrame(array, columns=numbered_names(array.shape[1])).infer_objects()


def numbered_names(count: int) -> list[str]:
    """Names for columns that have none: x0, x1, ..."""
    return [f"x{number}" for number in range(count)]


def as_label_list(labels: Any, name: str) -> Any:
    """Labels in one dimension: the values of a series, or of a frame with one column; all else as it is.

    Raises:
        InvalidInputError: a frame with several columns.
    """
    if is_frame(labels):
        frame = as_frame(labels, name)
        if frame.shape[1] != 1:
            raise InvalidInputError(f"{name}: expected one column of labels, got {list(frame.columns)}")
        labels = frame.iloc[:, 0]
    for method in ("to_pylist", "to_numpy"):  # of Arrow; of pandas and polars
        if hasattr(labels, method) and not isinstance(labels, np.ndarray):
            return getattr(labels, method)()
    return labels
