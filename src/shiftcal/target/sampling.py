"""Samples of rows that estimates are made from."""

from __future__ import annotations

import numpy as np

# Enough for every statistic that is made of them.
MOST_ROWS = 20_000


def sampled_rows(num_rows: int, most: int = MOST_ROWS) -> np.ndarray:
    """At most so many row numbers in ascending order: all of them, or a sample that is the same each time.

    A sample at even distances would take a single class of data that repeats its classes in turn.
    """
    if num_rows <= most:
        return np.arange(num_rows, dtype=np.int64)
    return np.sort(np.random.default_rng(0).permutation(num_rows)[:most]).astype(np.int64)
