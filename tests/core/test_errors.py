from __future__ import annotations

import pickle

import pytest

from shiftcal.core.errors import (
    CheckpointError,
    DataUnavailableError,
    InvalidInputError,
    MissingDependencyError,
    OutputError,
    ShiftcalError,
    TrainingInterrupted,
    UnknownNameError,
)

ERRORS: list[tuple[ShiftcalError, type[Exception]]] = [
    (InvalidInputError("said so"), ValueError),
    (UnknownNameError("method", "drll", ["drl"]), ValueError),
    (DataUnavailableError("said so"), FileNotFoundError),
    (MissingDependencyError("a timm model", "timm", "vision"), ImportError),
    (CheckpointError("said so"), RuntimeError),
    (OutputError("said so"), OSError),
    (TrainingInterrupted("said so"), Exception),
]
IDS = [type(error).__name__ for error, _ in ERRORS]


@pytest.mark.parametrize(("error", "built_in"), ERRORS, ids=IDS)
def test_every_error_is_ours_and_the_built_in(error: ShiftcalError, built_in: type[Exception]) -> None:
    assert isinstance(error, ShiftcalError)
    assert isinstance(error, built_in)


@pytest.mark.parametrize("cls", [InvalidInputError, DataUnavailableError, CheckpointError, OutputError])
def test_messages_print_as_given(cls: type[ShiftcalError]) -> None:
    assert str(cls("no file 'a b': choose another")) == "no file 'a b': choose another"


@pytest.mark.parametrize(("error", "built_in"), ERRORS, ids=IDS)
def test_errors_cross_processes_unchanged(error: ShiftcalError, built_in: type[Exception]) -> None:
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert str(copy) == str(error)
    assert isinstance(copy, built_in)


def test_unknown_name_suggests_the_closest_and_lists_all_in_order() -> None:
    error = UnknownNameError("method", "sourceonly", ["source-only", "drl"])
    assert str(error) == "unknown method 'sourceonly'. Did you mean 'source-only'? Known: drl, source-only."


def test_unknown_name_without_a_close_one_suggests_nothing() -> None:
    assert str(UnknownNameError("method", "xyz", ["drl"])) == "unknown method 'xyz'. Known: drl."
    assert str(UnknownNameError("method", "xyz", [])) == "unknown method 'xyz'. Known: none."


def test_unknown_name_may_be_anything() -> None:
    assert str(UnknownNameError("key", 3, ["source"])) == "unknown key 3. Known: source."


def test_missing_dependency_names_the_extra_to_install() -> None:
    message = str(MissingDependencyError("writing parquet", "pyarrow", "parquet"))
    assert message == "writing parquet needs 'pyarrow', which is not installed: pip install 'shiftcal[parquet]'"
