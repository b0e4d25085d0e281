"""A domain is a set of inputs, with or without labels; training can only ever be given target inputs without.

`LabelledDomain` and `UnlabelledDomain` share no base class on purpose: whatever takes an `UnlabelledDomain` can
not be handed labels by accident, neither by a type checker's reckoning nor at run time.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shiftcal.core.errors import InvalidInputError
from shiftcal.data.inputs import Inputs

Rows = NDArray[np.int64]


@dataclass(frozen=True)
class UnlabelledDomain:
    """Inputs alone: all that a method sees of the target."""

    name: str
    inputs: Inputs

    def __len__(self) -> int:
        return len(self.inputs)


@dataclass(frozen=True)
class LabelledDomain:
    """Inputs with labels: `labels[i]` is the position in `classes` of the label of input i."""

    name: str
    inputs: Inputs
    labels: Rows
    classes: tuple[Hashable, ...]
    weights: NDArray[np.float64] | None = None
    """How often training draws each row, in proportion; None: all alike. Held-out rows count alike in any case."""

    def __post_init__(self) -> None:
        if len(self.inputs) != len(self.labels):
            raise InvalidInputError(
                f"{self.name}: expected as many labels as inputs, got {len(self.labels)} labels "
                f"for {len(self.inputs)} inputs"
            )

    def __len__(self) -> int:
        return len(self.inputs)

    def without_labels(self) -> UnlabelledDomain:
        """The same inputs, with no way back to the labels."""
        return UnlabelledDomain(self.name, self.inputs)

    def subset(self, rows: Rows) -> LabelledDomain:
        """The given rows as a domain of their own."""
        weights = None if self.weights is None else self.weights[rows]
        return LabelledDomain(self.name, self.inputs.subset(rows), self.labels[rows], self.classes, weights)

    def labels_among(self, classes: Sequence[Hashable]) -> Rows:
        """Labels as positions in `classes` (the model's), whatever the order of this domain's own.

        Raises:
            InvalidInputError: a label that occurs here is not one of `classes`.
        """
        position = {label: index for index, label in enumerate(classes)}
        occurring = [self.classes[code] for code in np.unique(self.labels)]
        strangers = [label for label in occurring if label not in position]
        if strangers:
            shown = ", ".join(repr(label) for label in strangers[:5]) + (", ..." if len(strangers) > 5 else "")
            raise InvalidInputError(
                f"the class sets differ: {self.name} has {len(strangers)} class(es) that the source does not "
                f"have ({shown}). Expected a subset of the source's {len(classes)} classes "
                f"({', '.join(repr(label) for label in list(classes)[:5])}{', ...' if len(classes) > 5 else ''}). "
                "Rename or remove those."
            )
        lookup = np.array([position.get(label, -1) for label in self.classes], dtype=np.int64)
        return lookup[self.labels]
