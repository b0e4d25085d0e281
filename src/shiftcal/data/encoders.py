"""Encoders: what makes features of rows that are none yet, fitted on the source alone and kept with the model."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray


class Encoder(ABC):
    """From rows of a table or of a sparse matrix to features."""

    @abstractmethod
    def encode(self, rows: Any, name: str) -> NDArray[Any]:
        """Features (N, D) as finite float32.

        Raises:
            InvalidInputError: the rows are not like those of the source; `name` is what the user calls them.
        """

    @abstractmethod
    def description(self) -> dict[str, str]:
        """What is done with which column, in words."""

    @abstractmethod
    def summary(self) -> str:
        """The same in a few sentences."""

    @abstractmethod
    def as_plain(self) -> dict[str, Any]:
        """Plain values and tensors for a checkpoint; `encoder_from_plain` makes the same encoder of them."""


def encoder_from_plain(plain: Mapping[str, Any] | None) -> Encoder | None:
    """What `as_plain` was called on; None for None."""
    # Encoders are known to the inputs that carry them: imported here, the two do not need each other to be imported.
    from shiftcal.data.sparse_encoder import SparseEncoder
    from shiftcal.data.table_encoder import TableEncoder

    if plain is None:
        return None
    return (SparseEncoder if "components" in plain else TableEncoder).from_plain(plain)
