"""From features as they come to those in which structure is looked for: dense, finite, of ordinary size.

The model never sees these. What is missing counts as the source's median of its column. Sparse features, as of words,
have up to millions of columns: their leading components are taken, found from the columns with the largest sums of
squares. All is divided by a power of two near the largest deviation, so that features of 1e-8 are as good as others.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from sklearn.decomposition import TruncatedSVD
from torch import Tensor

from shiftcal.core.errors import InvalidInputError
from shiftcal.target.sampling import sampled_rows

FeatureTable: TypeAlias = NDArray[np.float64] | sparse.csr_matrix

_NUM_COMPONENTS = 256
# Columns and rows of each domain that components of sparse features are found from.
_MOST_COLUMNS = 20_000
_MOST_ROWS = 4_000
# In multiples of the scale: farther away is no more than far away, and squares stay finite.
_FARTHEST = 1e12


@dataclass(frozen=True)
class FeatureMap:
    """Fitted on both domains, the same for every row afterwards."""

    num_columns: int
    scale: float
    medians: NDArray[np.float64] | None = None
    """(F,) of dense features."""
    kept: NDArray[np.int64] | None = None
    """(K,) columns of sparse features that count."""
    components: NDArray[np.float64] | None = None
    """(P, K) of sparse features."""

    def of(self, features: FeatureTable) -> Tensor:
        """(N, F) or (N, P).

        Raises:
            InvalidInputError: another number of columns.
        """
        if features.shape[1] != self.num_columns or sparse.issparse(features) != (self.kept is not None):
            kinds = {True: "sparse", False: "dense"}
            raise InvalidInputError(
                f"features: expected {self.num_columns} columns, {kinds[self.kept is not None]}, as in fit, got "
                f"{features.shape[1]}, {kinds[sparse.issparse(features)]}"
            )
        if self.kept is not None:
            assert self.components is not None
            found = np.asarray(features[:, self.kept] @ self.components.T)
        else:
            assert self.medians is not None
            found = np.where(np.isfinite(features), features, self.medians)
        return torch.from_numpy(np.clip(found / self.scale, -_FARTHEST, _FARTHEST))


def fit_feature_map(source: FeatureTable, target: FeatureTable) -> FeatureMap:
    """From features (N, F) and (M, F) of both domains."""
    num_columns = source.shape[1]
    if target.shape[1] != num_columns:
        raise InvalidInputError(
            f"features: expected as many columns of the target as of the source, {num_columns}, got {target.shape[1]}"
        )
    if sparse.issparse(source):
        kept, components = _leading_components(source, target)
        return FeatureMap(num_columns, 1.0, kept=kept, components=components)
    finite = np.where(np.isfinite(source), source, np.nan)
    empty = np.isnan(finite).all(axis=0)
    finite[:, empty] = 0.0
    with np.errstate(over="ignore", invalid="ignore"):  # of numbers whose squares can't be written
        deviation = float(np.nanstd(finite, axis=0).max(initial=0.0))
    scale = 2.0 ** round(math.log2(deviation)) if math.isfinite(deviation) and deviation > 0 else 1.0
    return FeatureMap(num_columns, scale, medians=np.nanmedian(finite, axis=0))


def _leading_components(
    source: sparse.csr_matrix, target: sparse.csr_matrix
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    chosen = (part[sampled_rows(part.shape[0], _MOST_ROWS)] for part in (source, target))
    both = sparse.vstack(list(chosen), format="csr").astype(np.float64)
    squares = np.asarray(both.multiply(both).sum(axis=0)).ravel()
    num_kept = min(int((squares > 0).sum()), _MOST_COLUMNS)
    kept = np.sort(np.argsort(-squares, kind="stable")[: max(num_kept, 2)])
    num_components = max(min(_NUM_COMPONENTS, min(both.shape[0], len(kept)) - 1), 1)
    if len(kept) < 2:
        return kept, np.ones((1, len(kept)))
    return kept, TruncatedSVD(num_components, random_state=0).fit(both[:, kept]).components_
