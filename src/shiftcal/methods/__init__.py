"""Training methods: one file each, listed here and nowhere else."""

from __future__ import annotations

from typing import Any

from shiftcal.errors import UnknownNameError
from shiftcal.methods.base import Method
from shiftcal.methods.drl import DistributionallyRobust
from shiftcal.methods.source_only import SourceOnly

METHODS: dict[str, type[Method[Any]]] = {
    "drl": DistributionallyRobust,
    "source-only": SourceOnly,
}


def method_class(name: str) -> type[Method[Any]]:
    """The method of that name.

    Raises:
        UnknownNameError: there is none; with the closest that there is.
    """
    if name not in METHODS:
        raise UnknownNameError("method", name, METHODS)
    return METHODS[name]
