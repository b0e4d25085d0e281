"""Totals of values in bins: the sufficient statistics of every metric that looks at groups of samples.

All functions here share one layout, an array (3, num_groups) in ascending order of value with the rows
`count`, `sum of values`, `number of hits`. It is additive over samples, so that shards can be summed.
Counts are kept in float64, which holds integers exactly up to 9e15.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from shiftcal.metrics.checks import BoolArray, CheckedPredictions, FloatArray, IntArray, check_num_bins

DEFAULT_NUM_BINS = 15

# A running sum loses digits with its length; short blocks, then a pairwise sum, keep about 1e-13.
_BLOCK_LENGTH = 1024


class GroupTotals(NamedTuple):
    """The rows of the shared layout, each (num_groups,)."""

    samples: FloatArray
    value: FloatArray
    hits: FloatArray


def bin_edges(num_bins: int) -> FloatArray:
    """Return the edges k / num_bins (num_bins + 1,), each the float64 nearest to the fraction."""
    edges: FloatArray = np.arange(check_num_bins(num_bins) + 1) / num_bins
    return edges


def assign_bins(values: FloatArray, edges: FloatArray) -> IntArray:
    """Return the bin (a, b] of each value (N,): right-closed, and the first and last reach to infinity."""
    return np.searchsorted(edges[1:-1], values, side="left")


def bin_totals(values: FloatArray, hits: BoolArray, edges: FloatArray) -> FloatArray:
    """Return count, sum of values and number of hits of each bin (3, num_bins)."""
    num_bins = len(edges) - 1
    bins = assign_bins(values, edges)
    return np.stack(
        [
            np.bincount(bins, minlength=num_bins).astype(np.float64),
            _sum_by_bin(bins, values, num_bins),
            np.bincount(bins[hits], minlength=num_bins).astype(np.float64),
        ]
    )


def tie_totals(values: FloatArray, hits: BoolArray) -> FloatArray:
    """Return count, sum of values and number of hits of each distinct value (3, num_distinct)."""
    distinct, group, count = np.unique(values, return_inverse=True, return_counts=True)
    return np.stack([count, distinct * count, np.bincount(group[hits], minlength=len(distinct))])


def confidence_bins(predictions: CheckedPredictions, num_bins: int = DEFAULT_NUM_BINS) -> FloatArray:
    """Return the totals of the top-1 confidence in equal-width bins (3, num_bins); a hit is a right answer."""
    return bin_totals(predictions.confidence, predictions.correct, bin_edges(num_bins))


def confidence_ties(predictions: CheckedPredictions) -> FloatArray:
    """Return the totals of each distinct top-1 confidence (3, num_distinct); a hit is a right answer."""
    return tie_totals(predictions.confidence, predictions.correct)


def occupied(totals: FloatArray) -> GroupTotals:
    """Return the rows of the groups that hold any sample."""
    return GroupTotals(*totals[:, totals[0] > 0])


def _sum_by_bin(bins: IntArray, values: FloatArray, num_bins: int) -> FloatArray:
    # Blocks at least as long as there are bins keep the table no larger than the data.
    block_length = max(_BLOCK_LENGTH, num_bins)
    num_blocks = -(-len(values) // block_length)
    cell = bins + num_bins * (np.arange(len(values)) // block_length)
    table = np.bincount(cell, weights=values, minlength=num_blocks * num_bins).reshape(num_blocks, num_bins)
    # NumPy sums pairwise only along contiguous memory.
    sums: FloatArray = np.ascontiguousarray(table.T).sum(axis=1)
    return sums
