"""A fine histogram of the top-1 confidence, for metrics that would need all samples sorted."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np

from shiftcal.metrics.binning import bin_edges, bin_totals
from shiftcal.metrics.checks import CheckedPredictions, FloatArray, check_num_bins
from shiftcal.metrics.streaming.base import Result, StreamingMetric

DEFAULT_NUM_CELLS = 10_000


def cell_edges(num_cells: int) -> FloatArray:
    """Return the edges of `num_cells` equal cells over [0, 1], the last cut into finer ones towards 1.

    Networks put most of their confidences next to 1, where equal cells would not tell them apart. The finer
    cells, a quarter as many again, shrink by a constant factor to 1e-16: exactly 1 has a cell of its own.
    """
    finer = 1 - np.geomspace(1 / num_cells, 1e-16, num_cells // 4 + 2)
    return np.unique(np.concatenate([bin_edges(num_cells), finer]))


class ConfidenceCells(StreamingMetric[Result]):
    """A streaming metric that takes all confidences within a cell as equal: fixed memory, known error."""

    def __init__(self, *, num_cells: int = DEFAULT_NUM_CELLS) -> None:
        super().__init__()
        self.num_cells = check_num_bins(num_cells, "num_cells")
        self._edges = cell_edges(self.num_cells)

    @abstractmethod
    def error_bound(self) -> float:
        """Return how far the result can be from that of the plain function on the same samples.

        Raises:
            InvalidInputError: there were no samples yet.
        """

    def _settings(self) -> dict[str, int]:
        return {"num_cells": self.num_cells}

    def _batch_totals(self, predictions: CheckedPredictions) -> FloatArray:
        return bin_totals(predictions.confidence, predictions.correct, self._edges)


def misplaced_hits(totals: FloatArray) -> FloatArray:
    """Return, per cell (num_cells,), how many hits any cut through it can misplace: hits * misses / count.

    Of n samples with h hits, the j lowest hold between max(0, j - n + h) and min(j, h) hits where equal
    samples would hold j h / n; the difference is largest at j = h or j = n - h.
    """
    count, _, hits = totals
    misplaced: FloatArray = hits * (count - hits) / np.maximum(count, 1)
    return misplaced
