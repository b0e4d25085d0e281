"""Columns of a table as numbers, for clusters and ratios: categories by indicators, missing numbers by medians.

Learned from a reference. What is not known of there (a new category) is no indicator at all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from shiftcal.target.drift import Column

# Of a column, the most frequent ones: identities and free text would make a matrix of nothing else.
_MOST_CATEGORIES = 50

# Its square, and sums of these, can be written.
_LARGEST = 1e100


class ColumnEncoder:
    """The map from columns to numbers."""

    def __init__(self, columns: Mapping[str, Column]) -> None:
        self._categories: dict[str, list[str]] = {}
        self._fillings: dict[str, float] = {}
        for name, column in columns.items():
            if column.dtype == object:
                counts = Counter(value for value in column if value is not None)
                self._categories[name] = sorted(value for value, _ in counts.most_common(_MOST_CATEGORIES))
            else:
                known = column[np.isfinite(column)]
                self._fillings[name] = float(np.median(known)) if len(known) else 0.0

    def encoded(self, columns: Mapping[str, Column]) -> NDArray[np.float64]:
        """(N, F) of columns (N,); (N, 0) of none."""
        parts = [
            np.where(np.isfinite(columns[name]), columns[name], filling)[:, None].clip(-_LARGEST, _LARGEST)
            for name, filling in self._fillings.items()
        ]
        parts += [
            (columns[name][:, None] == np.array(known, dtype=object)).astype(np.float64)
            for name, known in self._categories.items()
        ]
        return np.concatenate(parts, axis=1) if parts else np.empty((0, 0))
