"""Cross-validation folds."""

from __future__ import annotations

import numpy as np

from shiftcal.metrics.checks import IntArray


def fold_numbers(num_rows: int, num_folds: int, generator: np.random.Generator) -> IntArray:
    """A fold for each row (num_rows,), at random, in sizes that differ by at most one."""
    return generator.permutation(np.arange(num_rows, dtype=np.int64) % num_folds)
