"""Inputs of a target against what the source showed: what no estimate can be believed beyond.

For each column of a table, on finite values:

    range     share of target rows outside of [low - width, high + width], where low and high are the ends of the
              source and width = high - low: there no source row is near
    unit      the spread (standard deviation, and between two pairs of quantiles) is 10 times larger, or smaller
    constant  the source has one value alone, and the target has others; or the source varies, the target does not
    missing   the share of values that are missing has grown by more than 10 points
    order     columns look as others did on the source: their quantiles are far from their own, and near when matched

Columns of one embedding or picture share their unit, and some hardly vary: there a column is odd only if it goes
beyond what all columns have. A model extrapolates on columns that are odd, and nothing that is known of the source
says how well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from shiftcal.core.errors import InvalidInputError
from shiftcal.target.sampling import sampled_rows

_FloatArray = NDArray[np.float64]

_UNIT_FACTOR = 10.0
_MISSING_GROWTH = 0.1
# Share of rows outside the range from which on a column is named.
_MUCH_OUTSIDE = 0.1
# Quantiles that columns are matched by; how far from its own, in spreads, a column must be to be taken for another,
# and what may be left of that when matched.
_MATCHED = (5, 25, 50, 75, 95)
_FAR = 0.5
_LEFT = 0.25
_MOST_MATCHED = 200
# Fewer rows do not show how a column varies.
_FEWEST_ROWS = 10
# Columns from which on those of like deviation (the largest up to so many medians) are taken to share their unit.
_FEWEST_COLUMNS = 20
_UNLIKE_UNITS = 30.0
# Share of a value on the source from which on a target may have it always.
_OFTEN = 0.5
_MOST_ROWS = 4_000
# Columns that a verdict names.
_MOST_NAMED = 3


@dataclass(frozen=True)
class ColumnFinding:
    """A column that is not what it was on the source."""

    column: str
    kind: Literal["range", "unit", "constant", "missing", "order"]
    share: float
    """Of the target's rows that it concerns."""
    words: str


@dataclass(frozen=True)
class InputChecks:
    """What was found of the columns of a target, the worst first."""

    num_columns: int
    findings: tuple[ColumnFinding, ...]

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> InputChecks:
        """From plain values, as `dataclasses.asdict` gives them."""
        return cls(plain["num_columns"], tuple(ColumnFinding(**found) for found in plain["findings"]))

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
            f"LOOK AT THE INPUTS FIRST: {columns} of {self.num_columns} columns of numbers are not what they were on "
            f"the source ({named}{more}). No estimate can be relied on before that is mended or explained."
        )


class InputReference(NamedTuple):
    """Columns of source inputs that later ones are compared with."""

    values: _FloatArray
    """(N, F)"""
    names: tuple[str, ...] | None

    def checks(self, inputs: _FloatArray, names: Sequence[str] | None = None) -> InputChecks:
        """Of other inputs (M, F) against these: by name where both have names, else by place.

        Raises:
            InvalidInputError: columns without names, and not as many.
        """
        if self.names is not None and names is not None:
            shared = [name for name in self.names if name in names]
            own, others = ([known.index(name) for name in shared] for known in (self.names, list(names)))
            return check_inputs(self.values[:, own], inputs[:, others], shared)
        if inputs.shape[1] != self.values.shape[1]:
            raise InvalidInputError(
                f"inputs: expected {self.values.shape[1]} columns of numbers, as on the source, got {inputs.shape[1]}"
            )
        return check_inputs(self.values, inputs, self.names)


def check_inputs(source: _FloatArray, target: _FloatArray, names: Sequence[str] | None = None) -> InputChecks:
    """Compare the columns of source rows (N, F) and target rows (M, F); NaN stands for what is missing."""
    num_columns = source.shape[1]
    source, target = (rows[sampled_rows(len(rows), _MOST_ROWS)] for rows in (source, target))
    names = [f"column {number}" for number in range(num_columns)] if names is None else [repr(name) for name in names]
    findings, ordinary = [], _common_spread(source)
    for number, name in enumerate(names):
        found = _check_column(source[:, number], target[:, number], name, ordinary)
        findings += [] if found is None else [found]
    findings += _exchanged(source, target, names)
    by_weight = sorted(findings, key=lambda found: (-found.share, found.kind != "order"))
    return InputChecks(num_columns, tuple(by_weight))


def _exchanged(source: _FloatArray, target: _FloatArray, names: Sequence[str]) -> list[ColumnFinding]:
    """Columns that have changed places."""
    complete = np.isfinite(source).all() and np.isfinite(target).all()
    if not complete or len(names) > _MOST_MATCHED or min(len(source), len(target)) < _FEWEST_ROWS:
        return []
    own, others = (np.percentile(rows, _MATCHED, axis=0).T for rows in (source, target))
    spread = own[:, -1] - own[:, 0]
    # Columns that hardly vary look like one another.
    (varying,) = np.nonzero(spread > 0)
    own, others, spread, names = (
        own[varying],
        others[varying],
        spread[varying],
        [names[each] for each in varying.tolist()],
    )
    distance = np.abs(others[:, None] - own[None]).mean(axis=2) / spread
    columns, places = linear_sum_assignment(np.minimum(distance, 1 / _FAR))
    moved = {
        column: place
        for column, place in zip(columns.tolist(), places.tolist(), strict=True)
        if distance[column, column] > _FAR and distance[column, place] < _LEFT * distance[column, column]
    }
    # A column may shift to where another was; where columns changed places, each place is taken by one of them.
    while len(closed := {column: place for column, place in moved.items() if place in moved}) < len(moved):
        moved = closed
    return [
        ColumnFinding(names[column], "order", 1.0, f"{names[column]}: looks as {names[place]} did on the source")
        for column, place in moved.items()
    ]


def _common_spread(source: _FloatArray) -> float:
    """The median deviation of columns that share their unit; 0 for those of a table, which have their own."""
    finite = np.where(np.isfinite(source), source, np.nan)
    present = finite[:, ~np.isnan(finite).all(axis=0)]
    with np.errstate(over="ignore", invalid="ignore"):  # of numbers whose squares can't be written
        deviation = np.nanstd(present, axis=0)
    varying = deviation[deviation > 0]
    if len(varying) < _FEWEST_COLUMNS or varying.max() > _UNLIKE_UNITS * np.median(varying):
        return 0.0
    return float(np.median(varying))


def _check_column(source: _FloatArray, target: _FloatArray, name: str, ordinary: float) -> ColumnFinding | None:
    own, others = (values[np.isfinite(values)] for values in (source, target))
    missing, was_missing = 1 - len(others) / len(target), 1 - len(own) / len(source)
    if missing - was_missing > _MISSING_GROWTH:
        words = f"{name}: {missing:.0%} missing, {was_missing:.0%} on the source"
        return ColumnFinding(name, "missing", missing - was_missing, words)
    if not len(own) or not len(others):
        return None
    low, high = own.min(), own.max()
    if low == high:
        share = float((np.abs(others - low) > _UNIT_FACTOR * ordinary).mean())
        words = f"{name}: always {low:g} on the source, {np.median(others):g} in the middle here"
        return ColumnFinding(name, "constant", share, words) if share > _MUCH_OUTSIDE else None
    if len(others) >= _FEWEST_ROWS and others.min() == others.max() and (own == others[0]).mean() < _OFTEN:
        words = f"{name}: always {others[0]:g} here, from {low:g} to {high:g} on the source"
        return ColumnFinding(name, "constant", 1.0, words)
    if min(len(own), len(others)) >= _FEWEST_ROWS:
        found = _check_unit(own, others, name, ordinary)
        if found is not None:
            return found
    width = max(high - low, _UNIT_FACTOR * ordinary)
    share = float(((others < low - width) | (others > high + width)).mean())
    if share <= _MUCH_OUTSIDE:
        return None
    words = f"{name}: from {others.min():g} to {others.max():g}, on the source from {low:g} to {high:g}"
    return ColumnFinding(name, "range", share, words)


def _check_unit(own: _FloatArray, others: _FloatArray, name: str, ordinary: float) -> ColumnFinding | None:
    was, now = float(np.std(own)), float(np.std(others))
    # Of columns that are nearly always the same, single measures of spread differ by chance: all of them must agree.
    # Most columns are done with by the first; quantiles take their time.
    if was / _UNIT_FACTOR < now < max(was, ordinary) * _UNIT_FACTOR:
        return None
    spreads = [
        [np.subtract(*np.percentile(values, pair)) for pair in ((75, 25), (95, 5))] for values in (own, others)
    ]
    if not np.all(spreads):  # half of the rows have one value
        return None
    factors = [now / was, *np.divide(spreads[1], spreads[0])]
    factor = float(min(factors) if now > was else max(factors))
    if 1 / _UNIT_FACTOR < factor < _UNIT_FACTOR:
        return None
    larger = float(f"{max(factor, 1 / factor):.2g}")
    how = "more" if factor > 1 else "less"
    words = f"{name}: varies {larger:,.0f} times {how} than on the source, as another unit would"
    return ColumnFinding(name, "unit", 1.0, words)
