"""Labels of any hashable type as class numbers."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from shiftcal.data.domains import Rows


def class_numbers(labels: Sequence[Hashable]) -> tuple[Rows, tuple[Any, ...]]:
    """The position (N,) of each label in the sorted classes that occur, and those classes."""
    classes = _sorted(set(labels))
    position = {label: number for number, label in enumerate(classes)}
    return np.array([position[label] for label in labels], dtype=np.int64), tuple(classes)


def _sorted(classes: set[Any]) -> list[Any]:
    try:
        return sorted(classes)
    except TypeError:  # labels of several types have no common order
        return sorted(classes, key=lambda label: (type(label).__name__, repr(label)))
