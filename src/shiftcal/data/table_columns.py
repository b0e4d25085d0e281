"""What becomes of one column of a table: numbers, categories, dates, or nothing.

| column of the source | features |
|---|---|
| numbers | in robust units, large ones squashed; missing ones become the median, and a feature says so |
| categories, true and false | one feature per frequent category; rare and unknown ones are 0 everywhere |
| dates | the day as a number, month, weekday and hour, each where it varies |
| one value only, row numbers, text with a different value in most rows, nested values | none |

Everything is fitted on the source by scikit-learn's own parts, and kept as plain numbers and texts.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.preprocessing import OneHotEncoder, RobustScaler

from shiftcal.core.errors import InvalidInputError
from shiftcal.data.frames import import_pandas

Features = NDArray[np.float32]

# Ranges of quantiles in percent that a column may be measured by: the first one that has a width.
_QUANTILE_RANGES = ((25.0, 75.0), (5.0, 95.0), (1.0, 99.0), (0.0, 100.0))
# In robust units: what lies far beyond is as far as this.
_FARTHEST = 3.0
# Rarer categories are one, that of all others: less than this share of the rows, or than so many.
_LEAST_SHARE, _LEAST_ROWS = 0.005, 5
_MOST_CATEGORIES = 64
_MISSING = "(missing)"
# Numbers in as many rows that only grow, each another, are counts of rows.
_FEWEST_ROW_NUMBERS = 20
_DATE = r"^\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}([T ].*)?$"
_DATE_FORMATS = ("ISO8601", "%d.%m.%Y", "%m/%d/%Y", "%d/%m/%Y", "%Y/%m/%d", "%d.%m.%Y %H:%M", "%m/%d/%Y %H:%M")
_DATE_PARTS = ("day", "month", "weekday", "hour")


@dataclass(frozen=True)
class Column(ABC):
    """A column of the source, and what is made of it."""

    name: str

    @abstractmethod
    def encode(self, values: Any, where: str) -> Features:
        """Features (N, K) of a pandas series; `where` is the table, for messages."""

    @abstractmethod
    def description(self) -> str:
        """In words."""

    def as_plain(self) -> dict[str, Any]:
        """For a checkpoint; `column_from_plain` makes the same of it."""
        return {"kind": _NAMES[type(self)], **asdict(self)}


@dataclass(frozen=True)
class NumberColumn(Column):
    """Numbers, truth values aside."""

    centre: float
    scale: float
    missing_share: float
    """On the source; a feature tells of missing values if it is above 0."""

    def encode(self, values: Any, where: str) -> Features:
        """Robust units x, squashed to x / sqrt(1 + (x / 3)^2): Holzmueller et al., NeurIPS 2024, appendix A."""
        return self.encode_numbers(_numbers(values, self.name, where))

    def encode_numbers(self, numbers: NDArray[np.float64]) -> Features:
        """The same of numbers (N,) that may be NaN."""
        scaler = RobustScaler()
        scaler.center_, scaler.scale_ = np.array([self.centre]), np.array([self.scale])
        units = scaler.transform(numbers[:, None])
        squashed = np.nan_to_num(units / np.hypot(1.0, units / _FARTHEST), nan=0.0)
        if self.missing_share == 0:
            return np.asarray(squashed, dtype=np.float32)
        return np.hstack([squashed, np.isnan(units)]).astype(np.float32)

    def description(self) -> str:
        """In words."""
        missing = f", {self.missing_share:.1%} missing, put at the median" if self.missing_share else ""
        return f"numbers around {self.centre:.6g}{missing}"


@dataclass(frozen=True)
class PlainColumn(Column):
    """Numbers that are taken as they are."""

    median: float
    """What stands for missing ones."""

    def encode(self, values: Any, where: str) -> Features:
        """The numbers themselves."""
        return np.nan_to_num(_numbers(values, self.name, where), nan=self.median).astype(np.float32)[:, None]

    def description(self) -> str:
        """In words."""
        return "numbers as they are"


@dataclass(frozen=True)
class CategoryColumn(Column):
    """Texts, truth values, and whatever is declared a category."""

    categories: tuple[str, ...]
    """The frequent ones."""
    num_rare: int
    are_numbers: bool

    def encode(self, values: Any, where: str) -> Features:
        """One-hot; 0 everywhere for rare and unknown categories."""
        pandas = import_pandas()
        kind = values.dtype
        is_number = pandas.api.types.is_numeric_dtype(kind) and not pandas.api.types.is_bool_dtype(kind)
        if is_number and not self.are_numbers and values.notna().any():
            raise _of_another_kind(self.name, where, f"categories such as {self.categories[0]!r}", "numbers", values)
        encoder = OneHotEncoder(
            categories=[list(self.categories)], handle_unknown="ignore", sparse_output=False, dtype=np.float32
        )
        encoder.fit(np.array([[self.categories[0]]], dtype=object))
        return np.asarray(encoder.transform(_texts(values)[:, None]))

    def description(self) -> str:
        """In words."""
        rare = f", {self.num_rare} rare ones taken as one" if self.num_rare else ""
        return f"{len(self.categories)} categories{rare}"


@dataclass(frozen=True)
class DateColumn(Column):
    """Dates and times."""

    date_format: str | None
    """Of texts; None for values that are dates already."""
    parts: tuple[NumberColumn, ...]

    def encode(self, values: Any, where: str) -> Features:
        """Numbers of the parts that vary on the source."""
        is_number = import_pandas().api.types.is_numeric_dtype(values.dtype)
        dates = _dates(values, self.date_format)
        if dates.isna().ne(values.isna()).any():  # written in another way than on the source
            dates = _dates(values, _date_format(values))
        lost = values.notna() & (dates.isna() | is_number)
        if lost.any():
            raise _of_another_kind(self.name, where, "dates", "something else", values[lost])
        numbers = _date_parts(dates)
        return np.hstack([part.encode_numbers(numbers[part.name]) for part in self.parts])

    def description(self) -> str:
        """In words."""
        return f"dates ({', '.join(part.name for part in self.parts)})"


@dataclass(frozen=True)
class IgnoredColumn(Column):
    """A column that says nothing, or that nothing can be made of."""

    reason: str

    def encode(self, values: Any, where: str) -> Features:
        """No features."""
        del where
        return np.empty((len(values), 0), dtype=np.float32)

    def description(self) -> str:
        """In words."""
        return f"ignored: {self.reason}"


_KINDS: dict[str, type[Column]] = {
    "numbers": NumberColumn,
    "plain numbers": PlainColumn,
    "categories": CategoryColumn,
    "dates": DateColumn,
    "ignored": IgnoredColumn,
}
_NAMES = {kind: name for name, kind in _KINDS.items()}


def column_from_plain(plain: dict[str, Any]) -> Column:
    """What `as_plain` was called on."""
    values: dict[str, Any] = {key: value for key, value in plain.items() if key != "kind"}
    if "categories" in values:
        values["categories"] = tuple(values["categories"])
    if "parts" in values:
        values["parts"] = tuple(NumberColumn(**part) for part in values["parts"])
    return _KINDS[plain["kind"]](**values)


def fit_column(values: Any, *, is_chosen: bool = False) -> Column:
    """What is to be made of a column of the source.

    Args:
        values: a pandas series with a name.
        is_chosen: whether the user has named the column; then row numbers are taken as numbers.
    """
    pandas = import_pandas()
    kind, name = _kind_of(values, pandas), str(values.name)
    if kind == "nested":
        return IgnoredColumn(name, "its values are neither numbers nor texts")
    if values.nunique(dropna=False) < 2:
        return IgnoredColumn(name, "it has one value only")
    if kind == "dates":
        date_format = _date_format(values)
        numbers = _date_parts(_dates(values, date_format))
        # The first part alone says that a date is missing.
        known = {
            part: numbers[part] if part == "day" else numbers[part][~np.isnan(numbers[part])] for part in numbers
        }
        parts = (_fit_numbers(part, values) for part, values in known.items())
        return DateColumn(name, date_format, tuple(part for part in parts if isinstance(part, NumberColumn)))
    if kind == "categories":
        return _fit_categories(name, _texts(values))
    if not is_chosen and _are_row_numbers(values, pandas):
        return IgnoredColumn(name, "it numbers the rows; name it among the columns to use it")
    return _fit_numbers(name, _numbers(values, name, "the source"))


def fit_plain_column(values: Any) -> PlainColumn:
    """A column of numbers, without gaps on the source, that is to be taken as it is."""
    return PlainColumn(str(values.name), float(values.median()))


def _fit_numbers(name: str, numbers: NDArray[np.float64]) -> Column:
    missing = np.isnan(numbers)
    if len(np.unique(numbers[~missing])) < 2 and not (missing.any() and not missing.all()):
        return IgnoredColumn(name, "it has one value only")
    for quantiles in _QUANTILE_RANGES:
        low, high = np.nanpercentile(numbers, quantiles)
        if high > low:
            break
    scaler = RobustScaler(quantile_range=quantiles).fit(numbers[:, None])
    return NumberColumn(name, float(scaler.center_[0]), float(scaler.scale_[0]), float(missing.mean()))


def _fit_categories(name: str, texts: NDArray[Any]) -> Column:
    least = max(_LEAST_ROWS, round(_LEAST_SHARE * len(texts)))
    encoder = OneHotEncoder(min_frequency=least, max_categories=_MOST_CATEGORIES).fit(texts[:, None])
    rare = encoder.infrequent_categories_[0]
    rare = [] if rare is None else rare.tolist()
    frequent = [category for category in encoder.categories_[0].tolist() if category not in set(rare)]
    covered = np.isin(texts, np.array(frequent, dtype=object)).mean() if frequent else 0.0
    if covered < 0.5:
        return IgnoredColumn(name, f"text with {len(frequent) + len(rare)} different values in {len(texts)} rows")
    return CategoryColumn(name, tuple(frequent), len(rare), all(_is_number(category) for category in frequent))


def _kind_of(values: Any, pandas: Any) -> str:
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
    if found in ("boolean", "empty"):
        return "categories"
    if found == "bytes" or not all(
        isinstance(value, (str, int, float, bool, np.generic)) for value in values.dropna()
    ):
        return "nested"
    if _date_format(values) is not None:
        return "dates"
    return "numbers" if pandas.to_numeric(values, errors="coerce").notna().eq(values.notna()).all() else "categories"


def _date_format(values: Any) -> str | None:
    """The format that all texts of a column have; None if there is none, or no texts."""
    texts = values.dropna()
    if not all(isinstance(text, str) for text in texts) or not texts.str.match(_DATE).all():
        return None
    return next((known for known in _DATE_FORMATS if _dates(texts, known).notna().all()), None)


def _dates(values: Any, date_format: str | None) -> Any:
    """Timestamps without a time zone; NaT where there is no date; texts by their format, other values as they are."""
    pandas = import_pandas()
    are_texts = pandas.api.types.infer_dtype(values, skipna=True) == "string"
    # Without a format pandas would guess one, row by row.
    date_format = (date_format or "ISO8601") if are_texts else None
    return pandas.to_datetime(values, format=date_format, errors="coerce", utc=True).dt.tz_localize(None)


def _date_parts(dates: Any) -> dict[str, NDArray[np.float64]]:
    days = (dates - import_pandas().Timestamp(0)).dt.total_seconds() / 86400
    columns = (days, dates.dt.month, dates.dt.day_of_week, dates.dt.hour)
    return {part: column.to_numpy(np.float64) for part, column in zip(_DATE_PARTS, columns, strict=True)}


def _numbers(values: Any, name: str, where: str) -> NDArray[np.float64]:
    """(N,) with NaN for what is missing or infinite."""
    pandas = import_pandas()
    if pandas.api.types.is_timedelta64_dtype(values.dtype):
        values = values.dt.total_seconds()
    if isinstance(values.dtype, pandas.CategoricalDtype):
        values = values.astype(object)
    is_date = pandas.api.types.is_datetime64_any_dtype(values.dtype)
    numbers = pandas.to_numeric(values, errors="coerce")
    lost = values.notna() if is_date else numbers.isna() & values.notna()
    if lost.any():
        raise _of_another_kind(name, where, "numbers", "something else", values[lost])
    found = np.array(numbers.to_numpy(dtype=np.float64, na_value=np.nan))
    found[~np.isfinite(found)] = np.nan
    return found


def _texts(values: Any) -> NDArray[Any]:
    """(N,) texts; a whole number is written alike whether its column has missing values (and is float) or not."""
    objects = values.astype(object).to_numpy()
    missing = values.isna().to_numpy()
    texts = np.empty(len(objects), dtype=object)
    texts[:] = [_MISSING if lost else _text(value) for value, lost in zip(objects, missing, strict=True)]
    return texts


def _text(value: Any) -> str:
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return text == _MISSING
    return True


def _are_row_numbers(values: Any, pandas: Any) -> bool:
    return bool(
        len(values) >= _FEWEST_ROW_NUMBERS
        and pandas.api.types.is_integer_dtype(values.dtype)
        and values.is_monotonic_increasing
        and values.is_unique
    )


def _of_another_kind(name: str, where: str, expected: str, found: str, values: Any) -> InvalidInputError:
    example = values.dropna().iloc[0]
    return InvalidInputError(
        f"column {name!r} of {where}: expected {expected} as in the source, got {found} such as {str(example)!r}; "
        "make both alike, or leave the column out (ignore)"
    )
