"""Tables that hold what a model said beside its inputs: which column is what, by option or by a guess that is told.

Columns of outputs and labels are found as `shiftcal calibrate` finds them (`shiftcal.runs.prediction_columns`);
columns of predictions, times and identities are no inputs.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from shiftcal.core.errors import InvalidInputError
from shiftcal.faces.monitoring.watched_columns import WatchedColumns
from shiftcal.runs.prediction_columns import ColumnChoice, PredictionColumns, find_columns

_NO_INPUTS = ("id", "y_pred", "prediction", "predicted", "predicted_class", "confidence", "density_ratio")


@dataclass(frozen=True)
class TableModel:
    """A model that reads from a table what another said."""

    found: PredictionColumns
    classes: tuple[Hashable, ...]
    """As the reference writes its labels, in the order of `found.classes`."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Those that are read."""
        return self.found.columns

    @property
    def classes_(self) -> NDArray[Any]:
        """As scikit-learn's models have it."""
        return np.array(self.classes)

    def predict_proba(self, frame: Any) -> NDArray[np.float64]:
        """(N, C).

        Raises:
            InvalidInputError: there are no such columns, or no probabilities in them.
        """
        outputs = self.found.outputs(frame, "table")
        return outputs if self.found.kind == "probabilities" else np.asarray(softmax(outputs, axis=1))


@dataclass(frozen=True)
class TableRoles:
    """What the columns of a reference are."""

    model: TableModel
    label: str
    features: tuple[str, ...]
    left_out: tuple[str, ...]

    def words(self) -> str:
        """What is taken for what, to be told to a user."""
        named = dict(zip(reversed(self.model.columns), reversed(self.model.classes), strict=False))
        said = ", ".join(f"{column} (class {named[column]})" for column in self.model.columns)
        return (
            f"{self.model.found.scale}: {said}; label: {self.label}; features: {', '.join(self.features) or 'none'}; "
            f"left out: {', '.join(self.left_out) or 'none'}"
        )


def table_roles(
    reference: Any,
    *,
    probabilities: Sequence[str] | None = None,
    label: str | None = None,
    features: Sequence[str] | None = None,
    ignore: Sequence[str] = (),
) -> TableRoles:
    """What the columns of a labelled reference are; what is not given is guessed.

    Raises:
        InvalidInputError: a column is missing, or can't be guessed.
    """
    names = [str(name) for name in reference.columns]
    for name in (*(probabilities or ()), *((label,) if label else ()), *(features or ()), *ignore):
        if name not in names:
            raise InvalidInputError(f"the reference has no column {name!r}; it has {', '.join(names)}")
    candidates = [name for name in names if name not in {*(features or ()), *ignore}]
    choice = ColumnChoice(columns=",".join(probabilities) if probabilities else None, label=label)
    found = find_columns(reference[candidates], choice, "the reference")
    if found.label is None:
        raise InvalidInputError(f"no column of labels: give its name (--label), one of {', '.join(names)}")
    labels = reference[found.label]
    codes = found.labels(reference, "the reference")
    assert codes is not None
    written = dict(zip(codes.tolist(), labels.tolist(), strict=True))
    classes = tuple(written.get(number, name) for number, name in enumerate(found.classes))
    known = {*found.columns, found.label, *_NO_INPUTS, *ignore}
    others = [name for name in names if name not in known]
    chosen = tuple(features or (WatchedColumns(reference[others]).names if others else ()))
    left_out = tuple(name for name in names if name not in {*found.columns, found.label, *chosen})
    return TableRoles(TableModel(found, classes), found.label, chosen, left_out)
