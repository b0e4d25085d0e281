"""Sparse matrices, as of words, as features: columns that are empty on the source are left out, and where very many
are left their leading components are taken."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from sklearn.decomposition import TruncatedSVD
from torch import Tensor

from shiftcal.core.errors import InvalidInputError
from shiftcal.data.encoders import Encoder

_NUM_COMPONENTS = 256
# As many columns are taken as they are.
_MOST_COLUMNS = 1_024


@dataclass(frozen=True, eq=False)
class SparseEncoder(Encoder):
    """x -> x[kept] W, or x[kept] alone."""

    num_columns: int
    kept: Tensor
    """(D,) numbers of the columns that are not empty on the source."""
    components: Tensor | None
    """(D, K); None: the columns themselves."""

    @classmethod
    def fit(cls, rows: Any) -> SparseEncoder:
        """By the rows (N, D) of the source."""
        rows = sparse.csr_array(rows)
        kept = np.unique(rows.indices[rows.data != 0])
        if len(kept) == 0:
            raise InvalidInputError("expected a sparse matrix with values in it, got one that is empty")
        components = None
        if len(kept) > _MOST_COLUMNS:
            count = min(_NUM_COMPONENTS, rows.shape[0] - 1)
            found = TruncatedSVD(count, random_state=0).fit(rows[:, kept])
            components = torch.from_numpy(np.ascontiguousarray(found.components_.T.astype(np.float32)))
        return cls(rows.shape[1], torch.from_numpy(kept.astype(np.int64)), components)

    def encode(self, rows: Any, name: str) -> NDArray[Any]:
        """Features of a sparse matrix (N, D), or of an array."""
        if rows.ndim != 2 or rows.shape[1] != self.num_columns:
            raise InvalidInputError(f"{name}: expected (rows, {self.num_columns}) as the source, got {rows.shape}")
        used = sparse.csr_array(rows)[:, self.kept.numpy()]
        features = used.toarray() if self.components is None else used @ self.components.numpy()
        if not np.isfinite(features).all():
            raise InvalidInputError(f"{name}: expected finite values, got NaN or infinity; remove or impute them")
        return np.asarray(features, dtype=np.float32)

    def description(self) -> dict[str, str]:
        """What is done with the columns."""
        made = "as they are" if self.components is None else f"as {self.components.shape[1]} components"
        return {"sparse matrix": f"{len(self.kept)} of {self.num_columns} columns are used, {made}"}

    def summary(self) -> str:
        """The same as a sentence."""
        return f"Of the sparse matrix, {self.description()['sparse matrix']}."

    def as_plain(self) -> dict[str, Any]:
        """For a checkpoint."""
        return {"num_columns": self.num_columns, "kept": self.kept, "components": self.components}

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> SparseEncoder:
        """What `as_plain` was called on."""
        return cls(**plain)
