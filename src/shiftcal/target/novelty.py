"""How much of a target lies outside of anything that the source has.

The share of target rows whose distance to the fifth-nearest source row is larger than that of 99 % of the
source rows themselves, in leading principal components: 0.01 for a target as the source is. There a classifier can
only extrapolate, and what held-out rows say of it does not carry over.
"""

from __future__ import annotations

import numpy as np
from sklearn.neighbors import NearestNeighbors
from torch import Tensor

from shiftcal.target.sampling import sampled_rows

_NUM_COMPONENTS = 16
_NUM_NEIGHBOURS = 5
_QUANTILE = 0.99
_MOST_ROWS = 2_000


def novelty(source: Tensor, target: Tensor) -> float:
    """Of target rows (M, K) against source rows (N, K); 0 where the source has too few rows to tell."""
    known, others = (rows[sampled_rows(len(rows), _MOST_ROWS), :_NUM_COMPONENTS].numpy() for rows in (source, target))
    if len(known) <= _NUM_NEIGHBOURS:
        return 0.0
    neighbours = NearestNeighbors(n_neighbors=_NUM_NEIGHBOURS + 1).fit(known)
    # The nearest of a source row is the row itself.
    usual = np.quantile(neighbours.kneighbors(known)[0][:, -1], _QUANTILE)
    distances = neighbours.kneighbors(others, n_neighbors=_NUM_NEIGHBOURS)[0][:, -1]
    return float((distances > usual).mean())
