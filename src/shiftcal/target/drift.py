"""Drift of single columns: whether values of a batch could come from where those of the reference come from.

Numbers by the two-sample test of Kolmogorov and Smirnov, categories by Pearson's chi-square test. Ties only make the
first one more careful. Categories that are rare in both samples together count as one, for the second one holds for
counts that are not small. Missing values are a category of their own; of numbers, their share is tested too.

With many columns some have small p-values by chance: they are corrected by Holm's method (Scandinavian Journal of
Statistics 6, 1979), which bounds the probability that any column is called drifted while none has, whatever the
columns have to do with each other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from scipy.special import chdtrc

from shiftcal.target.sampling import sampled_rows

Column = NDArray[Any]
"""(N,) floats with NaN where there is none, or strings (dtype object) with None where there is none."""
Kind = Literal["number", "category"]

# Categories that are expected less often than this in the smaller sample count as one.
_LEAST_EXPECTED = 10.0
# Of the reference: more rows would not find smaller drifts that matter.
_MOST_ROWS = 100_000


@dataclass(frozen=True)
class ColumnDrift:
    """How far a column of a batch differs from the reference."""

    name: str
    kind: Kind
    distance: float
    """Largest difference of the distribution functions; of categories, total variation. From 0 to 1."""
    p_value: float
    corrected: float
    """The p-value after Holm's correction for all columns."""


class ReferenceColumns:
    """Columns of a reference, to hold those of batches against."""

    def __init__(self, columns: Mapping[str, Column]) -> None:
        self._columns = {
            name: _reference_column(column[sampled_rows(len(column), _MOST_ROWS)]) for name, column in columns.items()
        }

    def drift(self, columns: Mapping[str, Column]) -> tuple[ColumnDrift, ...]:
        """Of each column of a batch that has the columns of the reference."""
        found = [
            ColumnDrift(name, own.kind, *own.compared(columns[name]), corrected=1.0)
            for name, own in self._columns.items()
        ]
        corrected = holm_corrected([column.p_value for column in found])
        return tuple(replace(column, corrected=value) for column, value in zip(found, corrected, strict=True))


def holm_corrected(p_values: Sequence[float]) -> list[float]:
    """p-values such that calling those below a level drifted errs anywhere with at most that probability."""
    order = np.argsort(p_values, kind="stable")
    remaining = np.arange(len(p_values), 0, -1)
    stepped = np.maximum.accumulate(np.asarray(p_values, dtype=np.float64)[order] * remaining).clip(max=1.0)
    corrected = np.empty(len(p_values))
    corrected[order] = stepped
    return corrected.tolist()


class _Numbers:
    kind: Kind = "number"

    def __init__(self, column: Column) -> None:
        self._num_rows = len(column)
        self._values = np.sort(column[~np.isnan(column)])

    def compared(self, column: Column) -> tuple[float, float]:
        """Distance and p-value; of numbers with missing ones, the smaller of two tests."""
        values = np.sort(column[~np.isnan(column)])
        missing = [[self._num_rows - len(self._values), len(column) - len(values)], [len(self._values), len(values)]]
        distance, p_value = kolmogorov_smirnov(self._values, values)
        if not any(missing[0]):
            return distance, p_value
        of_missing = _chi_square(np.array(missing, dtype=np.float64))
        return max(distance, of_missing[0]), min(2 * min(p_value, of_missing[1]), 1.0)


class _Categories:
    kind: Kind = "category"

    def __init__(self, column: Column) -> None:
        self._counts = _counts(column)

    def compared(self, column: Column) -> tuple[float, float]:
        """Distance and p-value."""
        others = _counts(column)
        names = sorted(self._counts.keys() | others.keys(), key=str)
        return _chi_square(
            np.array([[self._counts.get(name, 0), others.get(name, 0)] for name in names], dtype=np.float64)
        )


def _reference_column(column: Column) -> _Numbers | _Categories:
    return _Categories(column) if column.dtype == object else _Numbers(column)


def kolmogorov_smirnov(first: NDArray[np.float64], second: NDArray[np.float64]) -> tuple[float, float]:
    """Distance and p-value of two sorted samples; (0, 1) if one is empty."""
    if not len(first) or not len(second):
        return 0.0, 1.0
    points = np.concatenate([first, second])
    shares = (np.searchsorted(sample, points, side="right") / len(sample) for sample in (first, second))
    distance = float(np.abs(np.subtract(*shares)).max())
    rows = round(len(first) * len(second) / (len(first) + len(second)))
    return distance, float(stats.kstwo.sf(distance, max(rows, 1)))


def _counts(column: Column) -> dict[Any, int]:
    names, counts = np.unique(np.array(["" if name is None else f"={name}" for name in column]), return_counts=True)
    return dict(zip(names.tolist(), counts.tolist(), strict=True))


def _chi_square(counts: NDArray[np.float64]) -> tuple[float, float]:
    """Total variation and p-value of two samples, by counts (K, 2); (0, 1) if one is empty."""
    sizes = counts.sum(axis=0)
    if not sizes.all():
        return 0.0, 1.0
    distance = float(np.abs(np.subtract(*(counts / sizes).T)).sum() / 2)
    is_rare = counts.sum(axis=1) * sizes.min() / sizes.sum() < _LEAST_EXPECTED
    pooled = np.concatenate([counts[~is_rare], counts[is_rare].sum(axis=0, keepdims=True)])
    pooled = pooled[pooled.sum(axis=1) > 0]
    if len(pooled) < 2:
        return distance, 1.0
    expected = np.outer(pooled.sum(axis=1), sizes / sizes.sum())
    return distance, float(chdtrc(len(pooled) - 1, ((pooled - expected) ** 2 / expected).sum()))
