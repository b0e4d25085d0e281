"""Tables as domains: which columns are used, and the features that are made of them."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from shiftcal.core.errors import InvalidInputError, ShiftcalWarning, UnknownNameError
from shiftcal.data.domains import LabelledDomain, UnlabelledDomain
from shiftcal.data.encoders import Encoder
from shiftcal.data.frames import numbered_names
from shiftcal.data.inputs import ArrayInputs, Columns
from shiftcal.data.labels import class_numbers
from shiftcal.data.table_columns import (
    CategoryColumn,
    Column,
    Features,
    IgnoredColumn,
    column_from_plain,
    fit_column,
    fit_plain_column,
)
from shiftcal.data.table_values import kind_of, of_another_kind

# Share of a column's values that the source does not have, from which on that is said aloud.
_MUCH_UNKNOWN = 0.2
_SHOWN = 12


@dataclass(frozen=True, kw_only=True)
class TableColumns:
    """What the columns of a table are, where the user says so."""

    label: str | None = None
    """The column of the labels."""
    id: str | None = None
    """A column that names the rows, and is no input."""
    ignore: Sequence[str] = ()
    """Columns that are no inputs."""
    columns: Sequence[str] | None = None
    """The inputs; None: all others."""

    def inputs_of(self, frame: Any, name: str) -> list[str]:
        """Names of the columns that are inputs, in the order of the table.

        Raises:
            UnknownNameError: a column that the table does not have.
            InvalidInputError: no column is left.
        """
        for column in (self.label, self.id, *self.ignore, *(self.columns or ())):
            check_column(column, frame, name)
        left_out = {self.label, self.id, *self.ignore}
        found = [each for each in frame.columns if each not in left_out and each in (self.columns or frame.columns)]
        if not found:
            raise InvalidInputError(f"{name}: no column is left as input; the table has {_listed(frame.columns)}")
        return found


@dataclass(frozen=True)
class TableEncoder(Encoder):
    """From rows of a table to features, column by column."""

    columns: tuple[Column, ...]
    label: str | None = None
    """The column of the labels, which is no input."""
    id: str | None = None
    """The column that names the rows, which is no input."""
    left_out: tuple[str, ...] = ()
    """Columns of the source that the user has left out."""

    @classmethod
    def fit(cls, frame: Any, roles: TableColumns, name: str) -> TableEncoder:
        """Decide by the source what becomes of each column.

        Raises:
            UnknownNameError: the user names a column that the table does not have.
            InvalidInputError: no column can be used.
        """
        used = roles.inputs_of(frame, name)
        columns = tuple(fit_column(frame[column], is_chosen=roles.columns is not None) for column in used)
        others = {*used, roles.label, roles.id}
        encoder = cls(columns, roles.label, roles.id, tuple(each for each in frame.columns if each not in others))
        if all(isinstance(column, IgnoredColumn) for column in columns):
            raise InvalidInputError(f"{name}: no column can be used as input. {encoder.summary()}")
        return encoder

    @classmethod
    def as_is(cls, frame: Any) -> TableEncoder:
        """For a source of numbers without gaps: nothing but the order of columns, and gaps of later rows."""
        return cls(tuple(fit_plain_column(frame[column]) for column in frame.columns))

    @property
    def names(self) -> list[str]:
        """Names of all inputs, those that nothing is made of included."""
        return [column.name for column in self.columns]

    @property
    def text_columns(self) -> list[str]:
        """Names of columns that are texts in the source."""
        return [each.name for each in self.columns if isinstance(each, CategoryColumn) and not each.are_numbers]

    @property
    def has_names(self) -> bool:
        """Whether the columns have names of their own, and not those that `as_frame` gives."""
        return self.names != numbered_names(len(self.names))

    def encode(self, rows: Any, name: str) -> Features:
        """Features of a pandas frame; columns are found by name, in whatever order they are."""
        needed = [column for column in self.columns if not isinstance(column, IgnoredColumn)]
        missing = [column.name for column in needed if column.name not in rows.columns]
        if missing:
            raise InvalidInputError(
                f"{name}: columns of the source are missing: {_listed(missing)}. The table has "
                f"{_listed(rows.columns)}. Add them, or train without them (ignore)."
            )
        known = {*self.names, *self.left_out, self.label, self.id}
        extra = [column for column in rows.columns if column not in known]
        if extra:
            message = f"{name}: columns that the source does not have are ignored: {_listed(extra)}"
            warnings.warn(message, ShiftcalWarning, stacklevel=2)
        return np.hstack([_encoded(column, rows[column.name], name) for column in needed])

    def description(self) -> dict[str, str]:
        """What is done with which column, in words."""
        return {column.name: column.description() for column in self.columns}

    def summary(self) -> str:
        """The same in a few sentences: how many columns of each kind, and which are ignored."""
        ignored = [column for column in self.columns if isinstance(column, IgnoredColumn)]
        counts = Counter(column.as_plain()["kind"] for column in self.columns if column not in ignored)
        found = ", ".join(f"{count} of {kind}" for kind, count in counts.items()) or "none"
        reasons = "".join(f" {column.name!r} is ignored: {column.reason}." for column in ignored[:_SHOWN])
        more = f" {len(ignored) - _SHOWN} more are ignored." if len(ignored) > _SHOWN else ""
        return f"Columns used: {found}.{reasons}{more}"

    def as_plain(self) -> dict[str, Any]:
        """For a checkpoint."""
        columns = [column.as_plain() for column in self.columns]
        return {"columns": columns, "label": self.label, "id": self.id, "left_out": list(self.left_out)}

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> TableEncoder:
        """What `as_plain` was called on."""
        columns = tuple(column_from_plain(column) for column in plain["columns"])
        return cls(columns, plain["label"], plain["id"], tuple(plain["left_out"]))


def _encoded(column: Column, values: Any, name: str) -> Features:
    if kind_of(values) == "nested":
        raise of_another_kind(column.name, name, column.description(), "nested values", values)
    features = column.encode(values, name)
    if isinstance(column, CategoryColumn) and not column.num_rare and len(features):
        is_unknown = ~features.any(axis=1)
        if is_unknown.mean() > _MUCH_UNKNOWN:
            row = int(is_unknown.argmax())
            first = "a missing one" if values.isna().iloc[row] else repr(values.iloc[row])
            message = (
                f"{name}: {is_unknown.mean():.0%} of column {column.name!r} are values that the source does not "
                f"have, such as {first}; the classifier knows nothing of them"
            )
            warnings.warn(message, ShiftcalWarning, stacklevel=2)
    return features


class TableInputs(ArrayInputs):
    """Features of the rows of a table."""

    def __init__(self, frame: Any, encoder: TableEncoder, name: str, roles: TableColumns | None = None) -> None:
        roles = roles or TableColumns()
        id_column = roles.id or encoder.id
        inputs = frame[[column for column in frame.columns if column not in (roles.label, id_column)]]
        super().__init__(torch.from_numpy(encoder.encode(inputs, name)), encoder)
        self.column_names = list(frame.columns)
        numbers = inputs.select_dtypes(["number", "bool"])
        self._numbers = Columns(numbers.to_numpy(dtype=np.float64, na_value=np.nan), tuple(map(str, numbers.columns)))
        self.names = frame[id_column].astype(str).tolist() if id_column in frame.columns else None

    def columns(self) -> Columns | None:
        """See `Inputs.columns`."""
        return self._numbers

    def identify(self, row: int) -> str:
        """What the column of names says, or the number of the row."""
        return super().identify(row) if self.names is None else self.names[row]


def table_domain(
    frame: Any, name: str, roles: TableColumns, encoder: TableEncoder | None = None
) -> LabelledDomain | UnlabelledDomain:
    """The rows of a frame, with labels where it has a column of them.

    Args:
        frame: of pandas.
        name: of the domain, for messages.
        roles: what the columns are; with an encoder, its label and id count where none are given here.
        encoder: of the source; None: this is the source.

    Raises:
        UnknownNameError: the table lacks a column that the user names.
        InvalidInputError: the table is not like the source's, or has labels that are none.
    """
    is_source = encoder is None
    if encoder is None:
        encoder = TableEncoder.fit(frame, roles, name)
    for column in (roles.label, roles.id):
        check_column(column, frame, name)
    inputs = TableInputs(frame, encoder, name, roles)
    label = roles.label or encoder.label
    if label not in frame.columns:
        return UnlabelledDomain(name, inputs)
    values = frame[label]
    num_missing = int(values.isna().sum())
    if num_missing and is_source:
        raise InvalidInputError(
            f"{name}: {num_missing} of {len(values)} labels in column {label!r} are missing; remove those rows"
        )
    if num_missing:
        if num_missing < len(values):
            message = f"{name}: {num_missing} of {len(values)} labels are missing; the others are not used either"
            warnings.warn(message, ShiftcalWarning, stacklevel=2)
        return UnlabelledDomain(name, inputs)
    return LabelledDomain(name, inputs, *class_numbers(_plain_labels(values, name)))


def check_column(column: str | None, frame: Any, name: str) -> None:
    """Raise `UnknownNameError` if a column is named that the table does not have."""
    if column is not None and column not in frame.columns:
        raise UnknownNameError(f"column of {name!r}", column, frame.columns)


def _plain_labels(values: Any, name: str) -> list[Any]:
    """Labels as Python's own values, without blanks around texts; whole numbers stored as float are whole numbers."""
    labels = [label.strip() if isinstance(label, str) else label for label in values.astype(object).tolist()]
    fractional = next((label for label in labels if isinstance(label, float) and not label.is_integer()), None)
    if fractional is not None:
        raise InvalidInputError(
            f"{name}: expected classes in the column of labels {values.name!r}, got numbers such as {fractional!r}"
        )
    return [int(label) if isinstance(label, float) else label for label in labels]


def _listed(names: Any) -> str:
    shown = [repr(str(each)) for each in names]
    return ", ".join(shown[:_SHOWN]) + (f", ... ({len(shown)} in all)" if len(shown) > _SHOWN else "")
