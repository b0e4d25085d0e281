import io
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from shiftcal.core.errors import InvalidInputError
from shiftcal.data.table_columns import Column, IgnoredColumn, column_from_plain, fit_column

GENERATOR = np.random.default_rng(0)


def series(values: Any, **settings: Any) -> Any:
    return pd.Series(values, name="c", **settings)


def saved(column: Column) -> Column:
    stream = io.BytesIO()
    torch.save(column.as_plain(), stream)
    stream.seek(0)
    return column_from_plain(torch.load(stream, weights_only=True))


COLUMNS = {
    "numbers": series(GENERATOR.normal(5, 2, 200)),
    "numbers with gaps": series([1.0, None, 3.0, 4.0] * 20),
    "whole numbers": series(GENERATOR.integers(0, 50, 200)),
    "nullable numbers": series([1, None, 3, 9] * 20, dtype="Int64"),
    "numbers as texts": series(["1.5", "2", None, "7"] * 20),
    "texts": series(GENERATOR.choice(["a", "b", "ü"], 200)),
    "categories": series(pd.Categorical([1, 2, 2, None] * 20)),
    "truth values": series([True, False, None, True] * 20, dtype=object),
    "dates": series(pd.date_range("2020-01-01", periods=200, freq="13h")),
    "dates as texts": series(["31.12.2020", None, "01.02.2021", "3.3.2021"] * 20),
    "dates with zones": series(pd.date_range("2020-01-01", periods=200, freq="13h", tz="Asia/Tokyo")),
    "time spans": series(pd.to_timedelta(GENERATOR.integers(0, 99, 200), unit="h")),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_columns_of_every_kind_are_finite_and_can_be_saved(name: str) -> None:
    values = COLUMNS[name]
    column = fit_column(values)
    assert not isinstance(column, IgnoredColumn)
    assert saved(column) == column
    features = column.encode(values, "here")
    assert features.dtype == np.float32
    assert len(features) == len(values)
    assert np.isfinite(features).all()
    assert np.ptp(features, axis=0).all()
    np.testing.assert_array_equal(saved(column).encode(values, "here"), features)
    np.testing.assert_array_equal(column.encode(values[::-1], "here"), features[::-1])
    assert np.isfinite(column.encode(series([None] * 3), "here")).all()


def test_numbers_are_in_robust_units_and_squashed() -> None:
    values = np.append(np.arange(101.0), [1e6, np.inf, np.nan])
    features = fit_column(series(values)).encode(series([50.0, 100.0, 1e9, np.nan, -np.inf]), "here")
    # Quartiles of 0 .. 100 and the outlier: median 50.5, 25.25 and 75.75.
    units = (np.array([50.0, 100.0]) - 50.5) / 50.5
    np.testing.assert_allclose(features[:2, 0], units / np.sqrt(1 + (units / 3) ** 2), rtol=1e-5)
    assert features[:, 0].tolist()[2:] == [3.0, 0.0, 0.0]
    assert features[:, 1].tolist() == [0, 0, 0, 1, 1]


def test_numbers_that_are_mostly_zero_are_told_apart() -> None:
    values = series(np.where(np.arange(1000) % 20 == 0, np.linspace(1000, 9000, 1000), 0.0))
    features = fit_column(values).encode(values, "here")
    assert 0.5 < np.ptp(features) < 3.5


def test_rare_and_unknown_categories_are_one() -> None:
    column = fit_column(series(["a"] * 60 + ["b"] * 30 + ["c", "d", "e"] + [None] * 7))
    features = column.encode(series(["a", "b", "c", "new", None]), "here")
    assert features.sum(axis=1).tolist() == [1, 1, 0, 0, 1]
    assert features.shape == (5, 3)
    assert column.description() == "3 categories, 3 rare ones taken as one"


def test_whole_numbers_of_a_category_are_the_same_beside_gaps() -> None:
    column = fit_column(series(pd.Categorical([1, 2] * 20)))
    assert column.encode(series([1.0, 2.0, np.nan]), "here").sum(axis=1).tolist() == [1, 1, 0]


def test_dates_are_day_month_weekday_and_hour_where_these_vary() -> None:
    column = fit_column(series(pd.date_range("2020-01-01", periods=60, freq="D")))
    assert column.description() == "dates (day, month, weekday)"
    assert fit_column(COLUMNS["dates"]).description() == "dates (day, month, weekday, hour)"
    written = series(["2020-01-05", "2020-02-01"])
    np.testing.assert_array_equal(column.encode(written, ""), column.encode(pd.to_datetime(written), ""))


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ([3] * 50, "one value only"),
        ([None] * 50, "one value only"),
        ([f"some words {number}" for number in range(50)], "text with 50 different values in 50 rows"),
        (range(7, 57), "it numbers the rows"),
        ([[1], [2]] * 25, "neither numbers nor texts"),
        ([b"a", b"b"] * 25, "neither numbers nor texts"),
    ],
)
def test_columns_that_say_nothing_are_ignored(values: Any, reason: str) -> None:
    column = fit_column(series(list(values)))
    assert isinstance(column, IgnoredColumn)
    assert reason in column.description()
    assert column.encode(series([1, 2]), "here").shape == (2, 0)
    assert saved(column) == column


def test_row_numbers_are_taken_where_they_are_asked_for() -> None:
    assert not isinstance(fit_column(series(range(50)), is_chosen=True), IgnoredColumn)


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("numbers", ["old", "2"]),
        ("numbers", pd.date_range("2020-01-01", periods=2)),
        ("texts", [1.5, 2.0]),
        ("dates", ["soon", "later"]),
        ("dates", [1.0, 2.0]),
        ("dates as texts", ["2020", "a"]),
    ],
)
def test_a_column_of_another_kind_is_refused(kind: str, values: Any) -> None:
    with pytest.raises(InvalidInputError, match=r"column 'c' of new\.csv: expected .* as in the source, got"):
        fit_column(COLUMNS[kind]).encode(series(values), "new.csv")
