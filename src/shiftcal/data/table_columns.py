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

from shiftcal.data.frames import import_pandas
from shiftcal.data.table_values import (
    are_row_numbers,
    as_dates,
    as_numbers,
    as_texts,
    date_format_of,
    is_number,
    kind_of,
    of_another_kind,
    parts_of_dates,
)

Features = NDArray[np.float32]

# Ranges of quantiles in percent that a column may be measured by: the first one that has a width.
_QUANTILE_RANGES = ((25.0, 75.0), (5.0, 95.0), (1.0, 99.0), (0.0, 100.0))
# In robust units: what lies far beyond is as far as this.
_FARTHEST = 3.0
# Rarer categories are one, that of all others: less than this share of the rows, or than so many.
_LEAST_SHARE, _LEAST_ROWS = 0.005, 5
_MOST_CATEGORIES = 64


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
        return self.encode_numbers(as_numbers(values, self.name, where))

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
        return np.nan_to_num(as_numbers(values, self.name, where), nan=self.median).astype(np.float32)[:, None]

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
        has_numbers = pandas.api.types.is_numeric_dtype(kind) and not pandas.api.types.is_bool_dtype(kind)
        if has_numbers and not self.are_numbers and values.notna().any():
            raise of_another_kind(self.name, where, f"categories such as {self.categories[0]!r}", "numbers", values)
        encoder = OneHotEncoder(
            categories=[list(self.categories)], handle_unknown="ignore", sparse_output=False, dtype=np.float32
        )
        encoder.fit(np.array([[self.categories[0]]], dtype=object))
        rows, texts = as_texts(values)
        return np.asarray(encoder.transform(texts[:, None]))[rows]

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
        has_numbers = import_pandas().api.types.is_numeric_dtype(values.dtype)
        dates = as_dates(values, self.date_format)
        if dates.isna().ne(values.isna()).any():  # written in another way than on the source
            dates = as_dates(values, date_format_of(values))
        lost = values.notna() & (dates.isna() | has_numbers)
        if lost.any():
            raise of_another_kind(self.name, where, "dates", "something else", values[lost])
        numbers = parts_of_dates(dates)
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
    kind, name = kind_of(values), str(values.name)
    if kind == "nested":
        return IgnoredColumn(name, "its values are neither numbers nor texts")
    if values.nunique(dropna=False) < 2:
        return IgnoredColumn(name, "it has one value only")
    if kind == "dates":
        date_format = date_format_of(values)
        numbers = parts_of_dates(as_dates(values, date_format))
        # The first part alone says that a date is missing.
        known = {
            part: numbers[part] if part == "day" else numbers[part][~np.isnan(numbers[part])] for part in numbers
        }
        parts = (_fit_numbers(part, values) for part, values in known.items())
        return DateColumn(name, date_format, tuple(part for part in parts if isinstance(part, NumberColumn)))
    if kind == "categories":
        return _fit_categories(name, *as_texts(values))
    if not is_chosen and are_row_numbers(values):
        return IgnoredColumn(name, "it numbers the rows; name it among the columns to use it")
    return _fit_numbers(name, as_numbers(values, name, "the source"))


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


def _fit_categories(name: str, rows: NDArray[np.int64], texts: NDArray[Any]) -> Column:
    least = max(_LEAST_ROWS, round(_LEAST_SHARE * len(rows)))
    encoder = OneHotEncoder(min_frequency=least, max_categories=_MOST_CATEGORIES).fit(rows[:, None])
    found, rare = encoder.categories_[0], encoder.infrequent_categories_[0]
    frequent = found if rare is None else np.setdiff1d(found, rare)
    if np.isin(rows, frequent).mean() < 0.5:
        return IgnoredColumn(name, f"text with {len(found)} different values in {len(rows)} rows")
    categories = tuple(texts[frequent].tolist())
    return CategoryColumn(name, categories, len(found) - len(frequent), all(map(is_number, categories)))
