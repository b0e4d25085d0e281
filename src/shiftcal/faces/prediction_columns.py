"""Tables that hold what a model said beside its inputs: which column is what, by option or by a guess that is told.

A guess goes by names that programs give: probability_<class> (ours), y_pred_proba_<class>, proba_<class>, ... or a
single column for the second of two classes; label, y_true, ...; columns of predictions, times and identities are no
inputs.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shiftcal.core.errors import InvalidInputError
from shiftcal.faces.table_columns import WatchedColumns

_PREFIXES = ("probability_", "y_pred_proba_", "predicted_probability_", "proba_", "prob_")
_SINGLE = ("y_pred_proba", "predicted_probability", "probability", "proba", "prob", "score", "y_score")
_LABELS = ("label", "y_true", "truth", "target", "y")
_NO_INPUTS = ("id", "y_pred", "prediction", "predicted", "predicted_class", "confidence", "density_ratio")
# Probabilities that other programs wrote with few digits do not sum to one exactly.
_ROUNDING = 2e-2


@dataclass(frozen=True)
class PredictionColumns:
    """A model that reads from a table what another said: a column for each class, or one for the second of two."""

    columns: tuple[str, ...]
    classes: tuple[Hashable, ...]

    @property
    def classes_(self) -> NDArray[Any]:
        """As scikit-learn's models have it."""
        return np.array(self.classes)

    def predict_proba(self, frame: Any) -> NDArray[np.float64]:
        """(N, C).

        Raises:
            InvalidInputError: there are no such columns, or no probabilities in them.
        """
        read = WatchedColumns(frame, self.columns).of(frame)
        values = np.stack([_numbers(read[name], name) for name in self.columns], axis=1)
        if len(self.columns) == 1:
            values = np.concatenate([1 - values, values], axis=1)
        total = values.sum(axis=1)
        wrong = np.flatnonzero(~((values >= 0).all(axis=1) & (np.abs(total - 1) < _ROUNDING)))
        if len(wrong):
            raise InvalidInputError(
                f"columns {', '.join(self.columns)}: expected probabilities between 0 and 1 that sum to 1; row "
                f"{wrong[0] + 1} has {values[wrong[0]].tolist()}"
            )
        return np.asarray(values / total[:, None])


def _numbers(column: NDArray[Any], name: str) -> NDArray[np.float64]:
    if column.dtype == object:
        raise InvalidInputError(f"column {name!r}: expected probabilities, got {column[:3].tolist()}")
    return column


@dataclass(frozen=True)
class TableRoles:
    """What the columns of a reference are."""

    model: PredictionColumns
    label: str
    features: tuple[str, ...]
    left_out: tuple[str, ...]

    def words(self) -> str:
        """What is taken for what, to be told to a user."""
        named = dict(zip(reversed(self.model.columns), reversed(self.model.classes), strict=False))
        said = ", ".join(f"{column} (class {named[column]})" for column in self.model.columns)
        return (
            f"probabilities: {said}; label: {self.label}; features: {', '.join(self.features) or 'none'}; left out: "
            f"{', '.join(self.left_out) or 'none'}"
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
    said = tuple(probabilities or _guessed_probabilities(names))
    truth = label or next((name for name in _LABELS if name in names), None)
    if truth is None:
        raise InvalidInputError(
            f"no column of labels: expected one of {', '.join(_LABELS)}, or its name (--label), among "
            f"{', '.join(names)}"
        )
    classes = _classes(reference[truth], said)
    known = {*said, truth, *_NO_INPUTS, *ignore}
    others = [name for name in names if name not in known]
    chosen = tuple(features or (WatchedColumns(reference[others]).names if others else ()))
    left_out = tuple(name for name in names if name not in {*said, truth, *chosen})
    return TableRoles(PredictionColumns(said, classes), truth, chosen, left_out)


def _guessed_probabilities(names: Sequence[str]) -> tuple[str, ...]:
    for prefix in _PREFIXES:
        found = tuple(name for name in names if name.startswith(prefix))
        if len(found) > 1:
            return found
    for name in _SINGLE:
        if name in names:
            return (name,)
    raise InvalidInputError(
        f"no columns of probabilities: expected {_PREFIXES[0]}<class> for each class, or one of {', '.join(_SINGLE)} "
        f"for the second of two, or their names (--probabilities), among {', '.join(names)}"
    )


def _classes(labels: Any, columns: Sequence[str]) -> tuple[Hashable, ...]:
    """Labels that the columns stand for: by their names' endings, or for a single column the two in order."""
    if labels.isna().any():
        raise InvalidInputError(f"column {labels.name!r}: expected a label in each row of the reference")
    occurring = sorted(labels.unique().tolist(), key=lambda label: (str(type(label)), label))
    if len(columns) == 1:
        if len(occurring) != 2:
            raise InvalidInputError(
                f"column {labels.name!r}: one column of probabilities needs two labels, got {occurring[:10]}"
            )
        return tuple(occurring)
    # The longest label wins: "card" is the ending of "prepaid_card" too.
    longest_first = sorted(occurring, key=lambda label: -len(str(label)))
    ending = {name: next((k for k in longest_first if f"_{name}".endswith(f"_{k}")), None) for name in columns}
    named = [label for label in occurring if label in ending.values()]
    if len(named) < len(occurring):
        missing = next(label for label in occurring if label not in named)
        raise InvalidInputError(
            f"column {labels.name!r}: label {missing!r} is the ending of none of the columns of probabilities "
            f"{', '.join(columns)}"
        )
    return tuple(column if label is None else label for column, label in ending.items())
