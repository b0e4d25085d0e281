"""An order of rows by what they hold: what falls on rows by their place then falls on the same rows in any order.

Folds, samples and noise are drawn by row numbers. Drawn in this order, they do not depend on the order in which rows
come, nor on that of columns, such as classes, nor on what columns are measured in.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import StratifiedKFold


def content_order(rows: Any, *ties: Any) -> NDArray[np.int64]:
    """Row numbers (N,) of rows (N, F); among equal rows `ties` (N,) decide."""
    values = np.asarray(rows, dtype=np.float64)
    weights = np.random.default_rng(0).random(values.shape[1])
    with np.errstate(over="ignore", invalid="ignore"):  # of numbers near the largest that can be written
        deviation = values.std(axis=0)
        values = (values - values.mean(axis=0)) / np.where(deviation > 0, deviation, 1.0)
        # Sums, not products of matrices: those of equal rows are equal to the bit wherever the rows stand.
        by_size, by_column = ((part * weights).sum(axis=1) for part in (np.sort(values, axis=1), values))
    return np.lexsort((*(np.asarray(tie) for tie in ties), by_column, by_size))


def stratified_folds(rows: Any, strata: NDArray[np.int64], num_folds: int, seed: int) -> NDArray[np.int64]:
    """A fold (N,) for each of the rows (N, F), with as many rows of each stratum (N,) in all."""
    order, fold = content_order(rows), np.empty(len(strata), dtype=np.int64)
    split = StratifiedKFold(num_folds, shuffle=True, random_state=seed % 2**32).split(order, strata[order])
    for number, (_, held) in enumerate(split):
        fold[order[held]] = number
    return fold
