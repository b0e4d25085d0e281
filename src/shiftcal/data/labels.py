"""Labels of any hashable type as class numbers."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from shiftcal.data.domains import Rows


def class_numbers(labels: Sequence[Hashable]) -> tuple[Rows, tuple[Any, ...]]:
    """The position (N,) of each label in the sorted classes that occur, and those classes.

    The order of classes is the same in every process, whatever the seed of Python's hashes.
    """
    classes = _sorted(list(dict.fromkeys(labels)))
    position = {label: number for number, label in enumerate(classes)}
    return np.array([position[label] for label in labels], dtype=np.int64), tuple(classes)


def _sorted(classes: list[Any]) -> list[Any]:
    """By their own order where they have one, else by type and text."""
    if not any(_holds_set(label) for label in classes):
        try:
            return sorted(classes)
        except TypeError:  # labels of several types, or of a type without an order
            pass
    return sorted(classes, key=_type_and_text)


def _holds_set(label: Any) -> bool:
    """Sets can be compared, but a part of another set is all that `less` means of them."""
    return isinstance(label, frozenset) or (isinstance(label, tuple) and any(map(_holds_set, label)))


def _type_and_text(label: Any) -> tuple[str, str]:
    return type(label).__name__, _text(label)


def _text(label: Any) -> str:
    if isinstance(label, frozenset):
        return f"{{{', '.join(sorted(map(_text, label)))}}}"
    if isinstance(label, tuple):
        return f"({', '.join(map(_text, label))})"
    # What Python itself writes of an object is its place in memory: such labels stay in the order of the rows.
    has_own_text = type(label).__repr__ is not object.__repr__  # type: ignore[comparison-overlap]
    return repr(label) if has_own_text else ""
