"""Inputs of a target against what the source showed: what no estimate can be believed beyond.

For each column of a table, on finite values:

    range     share of target rows outside of [low - width, high + width], where low and high are the ends of the
              source and width = high - low: there no source row is near
    unit      the spread (from the first to the third quartile) is 10 times larger, or smaller
    constant  the source has one value alone, and the target has others; or the source varies, the target does not
    missing   the share of values that are missing has grown by more than 10 points

A model extrapolates on such columns, and nothing that is known of the source says how well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from shiftcal.target.sampling import sampled_rows

_FloatArray = NDArray[np.float64]

_UNIT_FACTOR = 10.0
_MISSING_GROWTH = 0.1
# Share of rows outside the range from which on a column is named.
_MUCH_OUTSIDE = 0.1
# Fewer rows do not show how a column varies.
_FEWEST_ROWS = 10
_MOST_ROWS = 4_000
# Columns that a verdict names.
_MOST_NAMED = 3


@dataclass(frozen=True)
class ColumnFinding:
    """A column that is not what it was on the source."""

    column: str
    kind: Literal["range", "unit", "constant", "missing"]
    share: float
    """Of the target's rows that it concerns."""
    words: str


@dataclass(frozen=True)
class InputChecks:
    """What was found of the columns of a target, the worst first."""

    num_columns: int
    findings: tuple[ColumnFinding, ...]

    @property
    def affected_share(self) -> float:
        """Of the target's rows, those that the worst finding concerns."""
        return max((found.share for found in self.findings), default=0.0)

    def verdict(self) -> str:
        """In words; empty where nothing was found."""
        if not self.findings:
            return ""
        named = "; ".join(found.words for found in self.findings[:_MOST_NAMED])
        columns = len({found.column for found in self.findings})
        more = f"; {columns - _MOST_NAMED} more columns" if columns > _MOST_NAMED else ""
        return (
            f"LOOK AT THE INPUTS FIRST: {columns} of {self.num_columns} columns are not what they were on the source "
            f"({named}{more}). No estimate can be relied on before that is mended or explained."
        )


def check_inputs(source: _FloatArray, target: _FloatArray, names: Sequence[str] | None = None) -> InputChecks:
    """Compare the columns of source rows (N, F) and target rows (M, F); NaN stands for what is missing."""
    num_columns = source.shape[1]
    source, target = (rows[sampled_rows(len(rows), _MOST_ROWS)] for rows in (source, target))
    names = [f"column {number}" for number in range(num_columns)] if names is None else [repr(name) for name in names]
    findings = []
    for number, name in enumerate(names):
        found = _check_column(source[:, number], target[:, number], name)
        findings += [] if found is None else [found]
    return InputChecks(num_columns, tuple(sorted(findings, key=lambda found: -found.share)))


def _check_column(source: _FloatArray, target: _FloatArray, name: str) -> ColumnFinding | None:
    own, others = (values[np.isfinite(values)] for values in (source, target))
    missing, was_missing = 1 - len(others) / len(target), 1 - len(own) / len(source)
    if missing - was_missing > _MISSING_GROWTH:
        words = f"{name}: {missing:.0%} missing, {was_missing:.0%} on the source"
        return ColumnFinding(name, "missing", missing - was_missing, words)
    if not len(own) or not len(others):
        return None
    low, high = own.min(), own.max()
    if low == high:
        share = float((others != low).mean())
        words = f"{name}: always {low:g} on the source, {np.median(others):g} in the middle here"
        return ColumnFinding(name, "constant", share, words) if share > _MUCH_OUTSIDE else None
    if len(others) >= _FEWEST_ROWS and others.min() == others.max():
        words = f"{name}: always {others[0]:g} here, from {low:g} to {high:g} on the source"
        return ColumnFinding(name, "constant", 1.0, words)
    if min(len(own), len(others)) >= _FEWEST_ROWS:
        found = _check_unit(own, others, name)
        if found is not None:
            return found
    width = high - low
    share = float(((others < low - width) | (others > high + width)).mean())
    if share <= _MUCH_OUTSIDE:
        return None
    words = f"{name}: from {others.min():g} to {others.max():g}, on the source from {low:g} to {high:g}"
    return ColumnFinding(name, "range", share, words)


def _check_unit(own: _FloatArray, others: _FloatArray, name: str) -> ColumnFinding | None:
    spread, other_spread = (float(np.subtract(*np.percentile(values, (75, 25)))) for values in (own, others))
    if not spread or not other_spread:  # half of the rows have one value
        return None
    factor = other_spread / spread
    if 1 / _UNIT_FACTOR < factor < _UNIT_FACTOR:
        return None
    words = f"{name}: varies {factor:.2g} times as much as on the source, as another unit would"
    return ColumnFinding(name, "unit", 1.0, words)
