from typing import Any

import numpy as np
import pytest
from scipy import stats

from shiftcal.target.drift import ColumnDrift, ReferenceColumns, holm_corrected, kolmogorov_smirnov


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def drift_of(reference: list[Any] | np.ndarray, batch: list[Any] | np.ndarray) -> ColumnDrift:
    columns = [np.array(column, dtype=object if isinstance(column, list) else float) for column in (reference, batch)]
    return ReferenceColumns({"a": columns[0]}).drift({"a": columns[1]})[0]


def test_numbers_are_compared_as_scipy_does(rng: np.random.Generator) -> None:
    first, second = np.sort(rng.normal(size=400)), np.sort(rng.normal(0.3, size=90))
    theirs = stats.ks_2samp(first, second, method="asymp")
    assert kolmogorov_smirnov(first, second) == pytest.approx((theirs.statistic, theirs.pvalue))


def test_categories_are_compared_by_chi_square() -> None:
    found = drift_of(["a"] * 60 + ["b"] * 40, ["a"] * 30 + ["b"] * 70)
    assert found.distance == pytest.approx(0.3)
    # (60 * 70 - 40 * 30)^2 * 200 / (100 * 100 * 90 * 110)
    assert found.p_value == pytest.approx(stats.chi2.sf(18.1818, 1), rel=1e-4)


def test_rare_categories_count_as_one_and_new_ones_are_seen() -> None:
    common = ["a"] * 500 + ["b"] * 500
    assert drift_of(common + [f"rare {k}" for k in range(20)], common).p_value > 1e-7
    assert drift_of(common, common[:900] + ["new"] * 100).p_value < 1e-10


def test_missing_values_are_drift(rng: np.random.Generator) -> None:
    values, batch = rng.normal(size=1000), rng.normal(size=500)
    assert drift_of(values, batch).p_value > 0.01
    batch[:100] = np.nan
    assert drift_of(values, batch).p_value < 1e-10
    assert drift_of(values, np.full(50, np.nan)).p_value < 1e-10
    assert drift_of(["a", "b"] * 300, ["a", "b", None] * 100).p_value < 1e-10


def test_samples_without_rows_have_not_drifted() -> None:
    assert drift_of(np.array([]), np.array([1.0])).p_value == 1
    assert drift_of(["a"], ["a"]).p_value == 1


def test_holm_by_hand() -> None:
    assert holm_corrected([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm_corrected([0.5, 0.9]) == pytest.approx([1.0, 1.0])
    assert holm_corrected([]) == []
