"""Leading principal components of features of both domains, in deviations of the source, for small models.

    z(x) = W (x / units - mean) / deviation_source(W x)

A linear map: a linear model of z is one of x too.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from sklearn.decomposition import PCA
from torch import Tensor

from shiftcal.target.clusters import common_units, ordinary_for_constant
from shiftcal.target.sampling import sampled_rows

_NUM_COMPONENTS = 64
# Rows of each domain that the components are found from.
_MOST_ROWS = 4_000
# In deviations of the source: beyond it, models are told no more than "far away".
_FARTHEST = 20.0


@dataclass(frozen=True)
class Components:
    """The map from features to components; the leading ones come first."""

    matrix: Tensor
    """(F, K)"""
    offset: Tensor
    """(K,)"""

    def of(self, features: Tensor) -> Tensor:
        """(N, K) of features (N, F)."""
        return (features @ self.matrix - self.offset).clamp(-_FARTHEST, _FARTHEST)


def fit_components(source: Tensor, target: Tensor) -> Components:
    """Find the components of rows (N, F) and (M, F)."""
    units = common_units(source)
    own, others = (rows[sampled_rows(len(rows), _MOST_ROWS)] / units for rows in (source, target))
    rows = torch.cat([own, others]).numpy()
    axes = _principal_axes(rows, max(min(_NUM_COMPONENTS, rows.shape[1], len(rows) // 4), 1))
    scores = own @ axes.T
    deviation = scores.std(dim=0, correction=0)
    deviation = ordinary_for_constant(deviation, least=1e-9 * float(deviation.max()))
    matrix = axes.T / units.unsqueeze(-1) / deviation
    return Components(matrix, scores.mean(dim=0) / deviation)


def _principal_axes(rows: np.ndarray, num_components: int) -> Tensor:
    """(K, F)"""
    if not np.ptp(rows, axis=0).any():
        # Constant features have no axes; any will do.
        return torch.eye(num_components, rows.shape[1], dtype=torch.float64)
    return torch.from_numpy(PCA(num_components, random_state=0).fit(rows).components_.astype(np.float64))
