"""What must not matter to any method: names of classes and of target rows, threads, units and offsets of columns."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from shiftcal.calibrators.base import CalibrationData
from shiftcal.data.batches import ShiftProblem
from shiftcal.data.domains import LabelledDomain, UnlabelledDomain
from shiftcal.data.inputs import ArrayInputs
from shiftcal.methods import METHODS
from shiftcal.training.fit import fit_model
from shiftcal.training.recipe import Recipe

pytestmark = pytest.mark.usefixtures("coarse_estimate")


class NamelessInputs(ArrayInputs):
    """Rows of a target whose names, in which folders write the classes, nobody may ask for."""

    def identify(self, row: int) -> str:
        raise AssertionError(f"the name of target row {row} was read")


def problem(
    values: NDArray[np.float64], moved: NDArray[np.float64], classes: tuple[str, ...], kind: type[ArrayInputs]
) -> ShiftProblem:
    labels = np.arange(len(values), dtype=np.int64) % len(classes)
    source, target = (torch.from_numpy(rows).float() for rows in (values, moved))
    return ShiftProblem(
        LabelledDomain("source", ArrayInputs(source), labels, classes), UnlabelledDomain("target", kind(target))
    )


def probabilities(given: ShiftProblem, name: str, backbone: nn.Module | None) -> Tensor:
    training = {"epochs": 1, "batch_size": 12}
    model = fit_model(given, Recipe.from_names(name, None, backbone or "auto", training=training))
    return torch.softmax(model.predict(given.source.inputs).logits, dim=-1)


@pytest.fixture(autouse=True)
def _no_estimate(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is estimated after training has tests of its own, and takes most of the time."""
    monkeypatch.setattr(CalibrationData, "diagnose", lambda *_, **__: None)


@contextmanager
def threads(number: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def clusters() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Rows of three classes, and the same rows moved."""
    values = 3 * np.eye(3, 4)[np.arange(36) % 3] + np.random.default_rng(0).normal(size=(36, 4))
    return values, values + 1


@pytest.mark.parametrize("name", METHODS)
def test_it_learns_the_same_whatever_things_are_called_and_measured_in(
    name: str, request: pytest.FixtureRequest
) -> None:
    backbone: nn.Module | None = None
    values, moved = clusters()
    if METHODS[name].needs_transformer:
        backbone = request.getfixturevalue("tiny_transformer")
        values = np.random.default_rng(0).uniform(size=(36, 1, 8, 8))
        moved = values / 2
    expected = probabilities(problem(values, moved, ("a", "b", "c"), ArrayInputs), name, backbone)
    with threads(2):
        found = probabilities(problem(values, moved, ("z", "y", "x"), NamelessInputs), name, backbone)
    torch.testing.assert_close(found, expected, atol=1e-6, rtol=0)
    if not METHODS[name].needs_transformer:
        # Powers of two: numbers as exact as before.
        units, offset = 2.0 ** np.array([-60, 0, 10, 40]), 2.0**3
        if name == "drst":
            # Clusters of inputs take columns of like deviation to share their unit, as those of an embedding do: what
            # must not matter there is which units, of columns that have their own.
            own = 2.0 ** np.array([0, 9, 3, -9])
            expected = probabilities(problem(own * values, own * moved, ("a", "b", "c"), ArrayInputs), name, backbone)
        values, moved = units * (values + offset), units * (moved + offset)
        found = probabilities(problem(values, moved, ("a", "b", "c"), ArrayInputs), name, backbone)
        torch.testing.assert_close(found, expected, atol=1e-3, rtol=0)
