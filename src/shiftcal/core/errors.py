"""Named errors: one root, and children that also are the built-in a caller would expect."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any


class ShiftcalError(Exception):
    """Root of every error that shiftcal raises on purpose."""

    def __reduce__(self) -> tuple[Any, ...]:
        # Errors come back from worker processes, and not every child is made from its message alone.
        return _restored, (type(self), self.args)


def _restored(cls: type[ShiftcalError], arguments: tuple[Any, ...]) -> ShiftcalError:
    error = cls.__new__(cls, *arguments)
    error.args = arguments
    return error


class InvalidInputError(ShiftcalError, ValueError):
    """An argument, an array or a configuration value is not what was expected."""


class UnknownNameError(InvalidInputError):
    """A method, option, dataset, ... of that name does not exist."""

    def __init__(self, what: str, name: object, choices: Iterable[str]) -> None:
        known = sorted(choices)
        close = difflib.get_close_matches(str(name), known, n=1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        super().__init__(f"unknown {what} {name!r}.{hint} Known: {', '.join(known) or 'none'}.")


class DataUnavailableError(ShiftcalError, FileNotFoundError):
    """A data set is not where it is looked for; the message says where that is and how to get it."""

    # FileNotFoundError formats itself from errno; the message alone is wanted here.
    __str__ = Exception.__str__


class MissingDependencyError(ShiftcalError, ImportError):
    """A feature needs an optional package that is not installed."""

    def __init__(self, feature: str, package: str, extra: str) -> None:
        super().__init__(f"{feature} needs {package!r}, which is not installed: pip install 'shiftcal[{extra}]'")


class CheckpointError(ShiftcalError, RuntimeError):
    """A checkpoint is missing, damaged, of another version or of another configuration."""


class ProcessLostError(ShiftcalError, RuntimeError):
    """Another process of a distributed run has ended or does not answer."""


class OutputError(ShiftcalError, OSError):
    """A result can't be written where it was asked for."""

    __str__ = Exception.__str__


class TrainingInterrupted(ShiftcalError):  # noqa: N818 - an interruption, not a failure
    """Training was stopped by a signal after saving its state."""
