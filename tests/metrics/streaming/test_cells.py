from __future__ import annotations

import itertools

import numpy as np
import pytest

from shiftcal.core.errors import InvalidInputError
from shiftcal.metrics import StreamingErrorDetectionAuroc
from shiftcal.metrics.binning import assign_bins
from shiftcal.metrics.streaming.cells import cell_edges, misplaced_hits


@pytest.mark.parametrize("num_cells", [1, 3, 10, 10_000])
def test_cells_rise_from_0_to_1_and_are_finer_next_to_1(num_cells: int) -> None:
    edges = cell_edges(num_cells)
    assert (edges[0], edges[-1]) == (0, 1)
    assert (np.diff(edges) > 0).all()
    assert num_cells <= len(edges) - 1 <= num_cells + num_cells // 4 + 2
    assert np.diff(edges).max() <= (1 + 1e-9) / num_cells


def test_saturated_confidences_are_told_apart() -> None:
    confidence = np.array([1 - 1e-4, 1 - 1e-5, 1 - 1e-8, 1 - 1e-12, 1 - 2.0**-53, 1.0])
    assert len(set(assign_bins(confidence, cell_edges(10_000)).tolist())) == len(confidence)


@pytest.mark.parametrize(("count", "hits"), [(1, 1), (4, 2), (5, 1), (6, 4)])
def test_misplaced_hits_are_the_worst_of_all_orders_and_cuts(count: int, hits: int) -> None:
    orders = set(itertools.permutations([1] * hits + [0] * (count - hits)))
    worst = max(abs(sum(order[:cut]) - cut * hits / count) for order in orders for cut in range(count + 1))
    assert misplaced_hits(np.array([[count], [0], [hits]], dtype=float))[0] == pytest.approx(worst)


def test_wrong_number_of_cells_is_refused() -> None:
    with pytest.raises(InvalidInputError, match=r"num_cells must be an integer of at least 1\. Got 0"):
        StreamingErrorDetectionAuroc(num_cells=0)
