"""Samples of rows that estimates are made from."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

# Enough for every statistic that is made of them.
MOST_ROWS = 20_000


def sampled_rows(num_rows: int, most: int = MOST_ROWS) -> np.ndarray:
    """At most so many row numbers in ascending order: all of them, or a sample that is the same each time.

    A sample at even distances would take a single class of data that repeats its classes in turn.
    """
    if num_rows <= most:
        return np.arange(num_rows, dtype=np.int64)
    return np.sort(np.random.default_rng(0).permutation(num_rows)[:most]).astype(np.int64)


class RowSample:
    """An even sample of the rows of a stream of any length, in bounded memory; all of them where they are few.

    Each row gets a random number, and those with the smallest ones stay (reservoir sampling).
    """

    def __init__(self, most: int = MOST_ROWS) -> None:
        self.num_rows = 0
        self._most = most
        self._generator = np.random.default_rng(0)
        self._parts: list[tuple[Any, ...]] = []
        self._num_kept = 0

    def add(self, *columns: Any) -> None:
        """Arrays or sparse matrices of the same rows; None for what there is not."""
        num_rows = next(column.shape[0] for column in columns if column is not None)
        self._parts.append((self._generator.random(num_rows), *columns))
        self.num_rows += num_rows
        self._num_kept += num_rows
        if self._num_kept > 2 * self._most:
            self._shrink()

    def columns(self) -> tuple[Any, ...]:
        """What was added, of the rows that stay, in the order in which they came."""
        self._shrink()
        return self._parts[0][1:]

    def _shrink(self) -> None:
        together = tuple(_joined(column) for column in zip(*self._parts, strict=True))
        if self._num_kept > self._most:
            kept = np.sort(np.argpartition(together[0], self._most)[: self._most])
            together = tuple(None if column is None else column[kept] for column in together)
        self._parts, self._num_kept = [together], len(together[0])


def _joined(parts: tuple[Any, ...]) -> Any:
    if parts[0] is None or len(parts) == 1:
        return parts[0]
    return sparse.vstack(parts, format="csr") if sparse.issparse(parts[0]) else np.concatenate(parts)
