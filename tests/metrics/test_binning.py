from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from shiftcal.metrics.binning import assign_bins, bin_edges, bin_totals, tie_totals


@pytest.mark.parametrize("num_bins", [1, 2, 3, 7, 10, 15, 100])
def test_values_on_an_edge_land_in_the_bin_below(num_bins: int) -> None:
    edges = bin_edges(num_bins)
    assert [float(edge) for edge in edges] == [float(Fraction(k, num_bins)) for k in range(num_bins + 1)]
    np.testing.assert_array_equal(assign_bins(edges, edges), [0, *range(num_bins)])
    above = np.nextafter(edges[:-1], 2)
    np.testing.assert_array_equal(assign_bins(above, edges), np.arange(num_bins))


@pytest.mark.parametrize(
    ("value", "num_bins", "expected"),
    [(0.2, 15, 2), (0.2, 5, 0), (0.6, 15, 8), (0.6, 5, 2), (0.7, 10, 6), (0.3, 10, 2), (0.0, 15, 0), (1.0, 15, 14)],
)
def test_decimal_literals_on_an_edge(value: float, num_bins: int, expected: int) -> None:
    assert assign_bins(np.array([value]), bin_edges(num_bins)).tolist() == [expected]


def test_a_value_above_one_by_rounding_lands_in_the_last_bin() -> None:
    assert assign_bins(np.array([1.0005]), bin_edges(15)).tolist() == [14]


@pytest.mark.parametrize("num_bins", [1, 15, 5000])
def test_long_sums_keep_their_digits(num_bins: int) -> None:
    values = np.full(1_000_001, 0.95)
    count, total, hits = bin_totals(values, np.arange(len(values)) % 2 == 0, bin_edges(num_bins)).sum(axis=1)
    assert (count, hits) == (1_000_001, 500_001)
    assert total == pytest.approx(0.95 * 1_000_001, rel=1e-13)


def test_tie_totals_are_per_distinct_value() -> None:
    totals = tie_totals(np.array([0.5, 0.25, 0.5]), np.array([True, False, False]))
    np.testing.assert_array_equal(totals, [[1, 2], [0.25, 1.0], [0, 1]])
