"""The values of one column of a pandas frame: of which kind they are, and as numbers, dates or texts."""

from __future__ import annotations

import re
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from shiftcal.core.errors import InvalidInputError
from shiftcal.data.frames import import_pandas

_MISSING = "(missing)"
# Numbers in as many rows that only grow, each another, are counts of rows.
_FEWEST_ROW_NUMBERS = 20
_DATE = r"^\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}([T ].*)?$"
_DATE_FORMATS = ("ISO8601", "%d.%m.%Y", "%m/%d/%Y", "%d/%m/%Y", "%Y/%m/%d", "%d.%m.%Y %H:%M", "%m/%d/%Y %H:%M")
_DATE_PARTS = ("day", "month", "weekday", "hour")


def kind_of(values: Any) -> Literal["numbers", "categories", "dates", "nested"]:
    """What the values of a series are; texts that all are numbers or dates count as such."""
    pandas = import_pandas()
    types, kind = pandas.api.types, values.dtype
    if types.is_bool_dtype(kind) or isinstance(kind, pandas.CategoricalDtype):
        return "categories"
    if types.is_numeric_dtype(kind) or types.is_timedelta64_dtype(kind):
        return "numbers"
    if types.is_datetime64_any_dtype(kind):
        return "dates"
    found = types.infer_dtype(values, skipna=True)
    if found in ("date", "datetime", "datetime64"):
        return "dates"
    if found in ("decimal", "integer", "floating", "mixed-integer-float"):
        return "numbers"
    known = values.dropna()
    if found == "boolean" or known.empty:
        return "categories"
    plain = (str, int, float, bool, np.generic)
    if found != "string" and (found == "bytes" or not all(isinstance(value, plain) for value in known)):
        return "nested"
    if date_format_of(values) is not None:
        return "dates"
    # One value is looked at before all are: most texts are no numbers.
    are_numbers = is_number(str(known.iloc[0])) and pandas.to_numeric(known, errors="coerce").notna().all()
    return "numbers" if are_numbers else "categories"


def date_format_of(values: Any) -> str | None:
    """The format that all texts of a column have; None if there is none, or no texts."""
    texts = values.dropna()
    if texts.empty or import_pandas().api.types.infer_dtype(texts) != "string" or not re.match(_DATE, texts.iloc[0]):
        return None
    if not texts.str.match(_DATE).all():
        return None
    return next((known for known in _DATE_FORMATS if as_dates(texts, known).notna().all()), None)


def as_dates(values: Any, date_format: str | None) -> Any:
    """Timestamps without a time zone; NaT where there is no date; texts by their format, other values as they are."""
    pandas = import_pandas()
    are_texts = pandas.api.types.infer_dtype(values, skipna=True) == "string"
    # Without a format pandas would guess one, row by row.
    date_format = (date_format or "ISO8601") if are_texts else None
    return pandas.to_datetime(values, format=date_format, errors="coerce", utc=True).dt.tz_localize(None)


def parts_of_dates(dates: Any) -> dict[str, NDArray[np.float64]]:
    """Days since 1970, month, weekday and hour of timestamps, each (N,)."""
    days = (dates - import_pandas().Timestamp(0)).dt.total_seconds() / 86400
    columns = (days, dates.dt.month, dates.dt.day_of_week, dates.dt.hour)
    return {part: column.to_numpy(np.float64) for part, column in zip(_DATE_PARTS, columns, strict=True)}


def as_numbers(values: Any, name: str, where: str) -> NDArray[np.float64]:
    """(N,) with NaN for what is missing or infinite."""
    pandas = import_pandas()
    if pandas.api.types.is_timedelta64_dtype(values.dtype):
        values = values.dt.total_seconds()
    if isinstance(values.dtype, pandas.CategoricalDtype):
        values = values.astype(object)
    if isinstance(values.dtype, np.dtype) and values.dtype.kind in "iuf":
        return _finite(values.to_numpy(dtype=np.float64))
    is_date = pandas.api.types.is_datetime64_any_dtype(values.dtype)
    numbers = pandas.to_numeric(values, errors="coerce")
    lost = values.notna() if is_date else numbers.isna() & values.notna()
    if lost.any():
        raise of_another_kind(name, where, "numbers", "something else", values[lost])
    if is_date:
        return np.full(len(values), np.nan)
    return _finite(numbers.to_numpy(dtype=np.float64, na_value=np.nan))


def _finite(numbers: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.where(np.isfinite(numbers), numbers, np.nan)


def as_texts(values: Any) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """The different texts of a series, sorted, and which of them (N,) each row has.

    A whole number is written alike whether its column has missing values, and is float, or not.
    """
    codes, found = import_pandas().factorize(values.astype(object))
    texts = np.array([*(_text(value) for value in found), _MISSING], dtype=object)
    different, position = np.unique(texts, return_inverse=True)
    return position[codes], different  # -1, of missing values, is the last


def _text(value: Any) -> str:
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def is_number(text: str) -> bool:
    """Whether a text of `as_texts` could be that of a column of numbers."""
    try:
        float(text)
    except ValueError:
        return text == _MISSING
    return True


def are_row_numbers(values: Any) -> bool:
    """Whether whole numbers only grow from row to row."""
    return bool(
        len(values) >= _FEWEST_ROW_NUMBERS
        and import_pandas().api.types.is_integer_dtype(values.dtype)
        and values.is_monotonic_increasing
        and values.is_unique
    )


def of_another_kind(name: str, where: str, expected: str, found: str, values: Any) -> InvalidInputError:
    """The error for a column that is not as on the source, with one of its values."""
    example = str(values.dropna().iloc[0])[:40]
    return InvalidInputError(
        f"column {name!r} of {where}: expected {expected} as in the source, got {found} such as {example!r}; "
        "make both alike, or leave the column out (ignore)"
    )
