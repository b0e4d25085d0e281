"""Named errors: one root, and children that also are the built-in a caller would expect."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

_MOST_SHOWN = 200
_MOST_NAMES = 60


def shown(value: object) -> str:
    """What came from outside, for a message: its `repr`, cut where it is long."""
    try:
        text = repr(value)
    except Exception:  # of any object of the user's; or an integer of thousands of digits
        return f"<{type(value).__name__}>"
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}... ({len(text):,} characters)"


class ShiftcalError(Exception):
    """Root of every error that shiftcal raises on purpose."""

    def __reduce__(self) -> tuple[Any, ...]:
        # Errors come back from worker processes, and not every child is made from its message alone.
        return _restored, (type(self), self.args)


def _restored(cls: type[ShiftcalError], arguments: tuple[Any, ...]) -> ShiftcalError:
    error = cls.__new__(cls, *arguments)
    error.args = arguments
    return error


class ShiftcalWarning(UserWarning):
    """Something in the input that is left aside, and that the user may not expect to be."""


class InvalidInputError(ShiftcalError, ValueError):
    """An argument, an array or a configuration value is not what was expected."""


class InvalidTypeError(InvalidInputError, TypeError):
    """The same, where scikit-learn's contract asks for a `TypeError`."""


class UnknownNameError(InvalidInputError):
    """A method, option, dataset, ... of that name does not exist."""

    def __init__(self, what: str, name: object, choices: Iterable[str]) -> None:
        known = sorted(choices)
        close = difflib.get_close_matches(name[:_MOST_SHOWN], known, n=1) if isinstance(name, str) else []
        hint = f" Did you mean {close[0]!r}?" if close else ""
        listed = ", ".join(known[:_MOST_NAMES] + ["..."] * (len(known) > _MOST_NAMES)) or "none"
        super().__init__(f"unknown {what} {shown(name)}.{hint} Known: {listed}.")


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


class UserCodeError(ShiftcalError, RuntimeError):
    """A data set or module of the user's own raised an error, which is the cause of this one."""


@contextmanager
def user_code(what: str) -> Iterator[None]:
    """Run code of the user's own, whose errors are to be told from ours.

    Raises:
        UserCodeError: from whatever it raises.
    """
    try:
        yield
    except ShiftcalError:
        raise
    except Exception as error:
        raise UserCodeError(f"{what} raised {type(error).__name__}: {error}") from error


class TrainingInterrupted(ShiftcalError):  # noqa: N818 - an interruption, not a failure
    """Training was stopped by a signal after saving its state."""
