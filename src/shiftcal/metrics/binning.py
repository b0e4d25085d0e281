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

# A running sum loses digits with its length; short blocks, then a pairwise sum, keep about 1e-13. They fit in the
# processor's cache too.
_BLOCK_LENGTH = 4096


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
    """Return the bin (a, b] of each value: right-closed, and the first and last reach to infinity.

    Bins as wide as the first one are found by arithmetic; what is next to an edge or in other bins is then looked up.
    """
    last = len(edges) - 2
    bins: IntArray = np.ceil(values * (1 / edges[1])).astype(np.int64)
    bins -= 1
    np.clip(bins, 0, last, out=bins)
    wrong = ((values > edges[1:][bins]) & (bins < last)) | ((values <= edges[bins]) & (bins > 0))
    if wrong.any():
        bins[wrong] = np.searchsorted(edges[1:-1], values[wrong], side="left")
    return bins


def bin_totals(values: FloatArray, hits: BoolArray, edges: FloatArray) -> FloatArray:
    """Return count, sum of values and number of hits of each bin (3, num_bins)."""
    # Blocks at least as long as there are bins keep the table no larger than the data.
    length = max(_BLOCK_LENGTH, len(edges) - 1)
    starts = range(0, len(values), length)
    blocks = [_block_totals(values[start : start + length], hits[start : start + length], edges) for start in starts]
    return _summed(blocks)


def _summed(blocks: list[FloatArray]) -> FloatArray:
    # NumPy sums pairwise only along contiguous memory.
    totals: FloatArray = np.stack(blocks, axis=-1).sum(axis=-1)
    return totals


def _block_totals(values: FloatArray, hits: BoolArray, edges: FloatArray) -> FloatArray:
    num_bins = len(edges) - 1
    bins = assign_bins(values, edges)
    return np.stack([np.bincount(bins, weights, minlength=num_bins) for weights in (None, values, hits)])


def tie_totals(values: FloatArray, hits: BoolArray) -> FloatArray:
    """Return count, sum of values and number of hits of each distinct value (3, num_distinct)."""
    distinct, group, count = np.unique(values, return_inverse=True, return_counts=True)
    return np.stack([count, distinct * count, np.bincount(group[hits], minlength=len(distinct))])


def confidence_bins(predictions: CheckedPredictions, num_bins: int = DEFAULT_NUM_BINS) -> FloatArray:
    """Return the totals of the top-1 confidence in equal-width bins (3, num_bins); a hit is a right answer."""
    edges = bin_edges(num_bins)
    # Block by block from the probabilities on: confidences of all samples would be written to memory and read again.
    blocks = [_block_totals(block.confidence, block.correct, edges) for block in predictions.blocks(num_bins)]
    return _summed(blocks)


def confidence_ties(predictions: CheckedPredictions) -> FloatArray:
    """Return the totals of each distinct top-1 confidence (3, num_distinct); a hit is a right answer."""
    return tie_totals(predictions.confidence, predictions.correct)


def occupied(totals: FloatArray) -> GroupTotals:
    """Return the rows of the groups that hold any sample."""
    return GroupTotals(*totals[:, totals[0] > 0])
