"""Which columns of a table hold what a model said: by what the user says, else by a guess that is said aloud.

Found on the source, where labels tell what classes there are, and used for the target as it was found.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from shiftcal.core.errors import InvalidInputError

Scale = Literal["auto", "probabilities", "percent", "logits"]

PREFIX = "probability_"
_LABELS = ("label", "y_true", "true_label", "true", "target", "y", "truth", "actual", "class")
_SCORES = (
    *("y_pred_proba", "predicted_probability", "score", "probability", "prob", "proba", "p"),
    *("y_score", "y_prob", "y_proba", "logit", "prediction"),
)
_YES = ("1", "1.0", "yes", "true", "positive", "pos", "y", "t")
_LARGEST_ROUNDING = 0.05


@dataclass(frozen=True)
class ColumnChoice:
    """What the user says of the columns; None and "auto": to be guessed."""

    columns: str | None = None
    """CLASS=COLUMN,... or COLUMN,...; one alone is the score of that class of a binary model."""
    label: str | None = None
    scale: Scale = "auto"


@dataclass(frozen=True)
class PredictionColumns:
    """Where predictions stand in a table."""

    classes: tuple[str, ...]
    columns: tuple[str, ...]
    """One for each class; or one alone, the score of the second of two classes."""
    label: str | None
    scale: Literal["probabilities", "percent", "logits"]
    notes: tuple[str, ...]
    """What was guessed, in words."""

    @property
    def kind(self) -> Literal["logits", "probabilities"]:
        """What `outputs` gives."""
        return "logits" if self.scale == "logits" else "probabilities"

    def outputs(self, table: pd.DataFrame, where: str) -> NDArray[np.float64]:
        """(N, C): logits, or probabilities with a sum of exactly one.

        Raises:
            InvalidInputError: a column is missing, or holds something else.
        """
        absent = [name for name in self.columns if name not in table.columns]
        if absent:
            raise InvalidInputError(
                f"{where}: expected a column {absent[0]!r}, as on the source, got {list(table.columns)}"
            )
        values = np.stack([_numbers(table[name], name, where) for name in self.columns], axis=1)
        first = int(table.index[0]) if len(table) else 0
        if self.scale == "logits":
            _check_rows(np.asarray(np.isfinite(values).all(axis=1)), values, where, first, "finite logits")
            return np.hstack([0 * values, values]) if values.shape[1] == 1 else values
        values = values / 100 if self.scale == "percent" else values
        if values.shape[1] == 1:
            values = np.hstack([1 - values, values])
        total = values.sum(axis=1)
        right = (values >= 0).all(axis=1) & (np.abs(total - 1) <= _rounding(values.shape[1]))
        _check_rows(right, values, where, first, "probabilities that sum to 1")
        return np.asarray(values / total[:, None])

    def labels(self, table: pd.DataFrame, where: str) -> NDArray[np.int64] | None:
        """(N,) class numbers, where the table has the column of labels.

        Raises:
            InvalidInputError: a label that is no class.
        """
        if self.label is None or self.label not in table.columns:
            return None
        position = {name: number for number, name in enumerate(self.classes)}
        position |= {f"{name}.0": number for name, number in position.items() if name.lstrip("-").isdecimal()}
        given = table[self.label].astype(str)
        if given.isin(["", "nan", "None"]).all():
            return None
        codes = given.map(position)
        if codes.isna().any():
            unknown = given[codes.isna()].iloc[0]
            raise InvalidInputError(f"{where}: label {unknown!r} has no column {PREFIX}{unknown}")
        return np.array(codes, dtype=np.int64)


def find_columns(table: pd.DataFrame, choice: ColumnChoice, where: str) -> PredictionColumns:
    """The columns of a table, by its first rows.

    Raises:
        InvalidInputError: the table is empty, or its columns do not say what they are.
    """
    names = list(map(str, table.columns))
    if not len(table):
        raise InvalidInputError(f"{where}: expected columns {PREFIX}<class> and rows; the table is empty")
    label = choice.label if choice.label is not None else _guessed_label(names)
    if label is not None and label not in names:
        raise InvalidInputError(f"{where}: expected a column of labels {label!r}, got {names}")
    missing = 0 if label is None else int((table[label].isna() | (table[label].astype(str).str.strip() == "")).sum())
    if missing == len(table):  # an empty column is as good as none
        label = None
    elif missing:
        raise InvalidInputError(
            f"{where}: column {label!r}: expected a label in each row, and {missing} of the first {len(table)} are "
            "missing; remove those rows"
        )
    labels = [] if label is None else sorted({_plain(value) for value in table[label].astype(str)})
    if choice.columns is not None:
        classes, columns = _chosen_columns(choice.columns, labels, names, where)
    else:
        classes, columns = _guessed_columns([name for name in names if name != label], labels, where)
    scale, rounded = _scale_of(table, columns, choice.scale, where)
    notes = []
    if choice.columns is None and columns != tuple(f"{PREFIX}{name}" for name in classes):
        held = f"the score of class {classes[1]!r}" if len(columns) == 1 else f"classes {', '.join(classes)}"
        notes.append(f"columns {', '.join(columns)} taken for {held} (say otherwise by --columns CLASS=COLUMN,...)")
    if choice.label is None and label not in (None, "label"):
        notes.append(f"column {label} taken for labels (--label)")
    if choice.scale == "auto" and scale != "probabilities":
        notes.append(f"numbers taken for {scale} (--scale)")
    if rounded > 1e-6:
        notes.append(f"probabilities sum to 1 up to {rounded:.2g}: rounded, it seems, and divided by their sum")
    return PredictionColumns(classes, columns, label, scale, tuple(notes))


def _guessed_label(names: Sequence[str]) -> str | None:
    by_lower = {name.lower(): name for name in reversed(names)}
    return next((by_lower[known] for known in _LABELS if known in by_lower), None)


def _chosen_columns(
    text: str, labels: list[str], names: Sequence[str], where: str
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    pairs = [part.split("=", 1) if "=" in part else [part, part] for part in text.split(",")]
    for _, column in pairs:
        if column not in names:
            raise InvalidInputError(f"{where}: expected a column {column!r} (--columns), got {list(names)}")
    columns = tuple(column for _, column in pairs)
    if "=" not in text and len(columns) > 1:
        return _classes_by_affix(columns, labels) or columns, columns
    classes = tuple(name for name, _ in pairs)
    if len(columns) > 1:
        return classes, columns
    return _two_classes(labels, classes[0] if "=" in text else None, where), columns


def _two_classes(labels: list[str], positive: str | None, where: str) -> tuple[str, str]:
    """The other class and the one that a single score is of."""
    if len(labels) != 2:
        raise InvalidInputError(
            f"{where}: a single score column needs labels of two classes, got {len(labels)}: {labels[:5]}; give one "
            "column for each class by --columns CLASS=COLUMN,..."
        )
    if positive is None:
        positive = next((label for label in labels if label.lower() in _YES), labels[1])
    if positive not in labels:
        raise InvalidInputError(f"{where}: expected a class among {labels}, got {positive!r} (--columns)")
    return next(label for label in labels if label != positive), positive


def _guessed_columns(names: Sequence[str], labels: list[str], where: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    own = tuple(name for name in names if name.startswith(PREFIX))
    if len(own) > 1:
        return tuple(name.removeprefix(PREFIX) for name in own), own
    for candidate in names:
        affix = _affix(candidate, labels[0]) if labels else None
        if affix is None:
            continue
        before, after = affix
        if len(labels) > 1 and all(f"{before}{label}{after}" in names for label in labels):
            # A class that no source row has shows by its column alone, if that is marked clearly.
            marked = re.search(r"[^a-zA-Z0-9]$", before) or re.search(r"^[^a-zA-Z0-9]", after)
            others = [
                name[len(before) : len(name) - len(after)]
                for name in names
                if marked and name.startswith(before) and name.endswith(after)
            ]
            classes = tuple(dict.fromkeys([*others, *labels]))
            return classes, tuple(f"{before}{name}{after}" for name in classes)
    score = next((name for known in _SCORES for name in names if name.lower() == known), None)
    if score is None and len(own) == 1:
        score = own[0]
    if score is not None and labels:
        named = score.removeprefix(PREFIX)
        return _two_classes(labels, named if named in labels else None, where), (score,)
    raise InvalidInputError(
        f"{where}: expected a column {PREFIX}<class> for each of two or more classes, or columns named by labels, "
        f"got {list(names)}; say which by --columns CLASS=COLUMN,... and --label COLUMN"
    )


def _affix(name: str, label: str) -> tuple[str, str] | None:
    place = name.find(label)
    return None if place < 0 else (name[:place], name[place + len(label) :])


def _classes_by_affix(columns: tuple[str, ...], labels: list[str]) -> tuple[str, ...] | None:
    """Classes of columns that are labels with the same text before and after each; None if they are not."""
    for label in labels:
        for before, after in filter(None, (_affix(column, label) for column in columns)):
            classes = tuple(name.removeprefix(before).removesuffix(after) for name in columns)
            if set(labels) <= set(classes):
                return classes
    return None


def _scale_of(
    table: pd.DataFrame, columns: tuple[str, ...], given: Scale, where: str
) -> tuple[Literal["probabilities", "percent", "logits"], float]:
    """What the numbers are, and how far rows of probabilities are from a sum of 1."""
    values = np.stack([_numbers(table[name], name, where) for name in columns], axis=1)
    total, allowed = values.sum(axis=1), _rounding(len(columns))
    may_be_logits = not any("prob" in name.lower() for name in columns)
    if given == "auto":
        given = "probabilities"
        if len(columns) == 1:
            if values.min() < 0 and may_be_logits:
                given = "logits"
            elif values.max() > 1:
                given = "percent" if values.max() <= 100 and values.min() >= 0 else "logits"
        elif (values >= 0).all() and (np.abs(total - 100) <= 100 * allowed).all():
            given = "percent"
        elif may_be_logits and not (np.abs(total - 1) <= allowed).all():
            given = "logits"
    if given == "logits" or len(columns) == 1:
        return given, 0.0
    unit = 100 if given == "percent" else 1
    return given, float(np.abs(total / unit - 1).max())


def _numbers(column: pd.Series, name: str, where: str) -> NDArray[np.float64]:
    try:
        return np.asarray(column.to_numpy(), dtype=np.float64)
    except (TypeError, ValueError):
        pass
    try:
        # A comma for decimals and a sign of per cent, as spreadsheets write them.
        text = column.astype(str).str.strip().str.removesuffix("%").str.replace(",", ".", regex=False)
        return np.asarray(text, dtype=object).astype(np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"{where}: column {name!r} holds something else than numbers: {error}") from None


def _rounding(num_classes: int) -> float:
    """What rows of probabilities with two digits may differ from 1 by."""
    return min(1e-3 + 0.005 * num_classes, _LARGEST_ROUNDING)


def _check_rows(right: NDArray[np.bool_], values: NDArray[np.float64], where: str, first: int, what: str) -> None:
    if not right.all():
        wrong = int(np.argmin(right))
        raise InvalidInputError(f"{where}: expected rows of {what}; row {first + wrong + 1} is {values[wrong]}")


def _plain(label: str) -> str:
    """A whole number that became a float on its way through a table with holes."""
    return label.removesuffix(".0") if label.removesuffix(".0").lstrip("-").isdecimal() else label
