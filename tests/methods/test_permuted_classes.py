"""Which number a class has must not matter: with classes permuted, every method gives the permuted columns.

Two things rightly go by the number of a class, and are permuted here along with it. The first weights of a network
are drawn in the order of its outputs. Rows are held out class by class, each class with the next draws of one
generator: the test draws them for all classes at once.

Methods that draw noise for each output in training (`NOISY`) can't be equal number by number, as draws fall on other
classes. Of these the classes that they predict are held equal where classes are far apart.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from shiftcal.calibrators.base import CalibrationData
from shiftcal.data.batches import ShiftProblem
from shiftcal.data.domains import LabelledDomain, UnlabelledDomain
from shiftcal.data.inputs import ArrayInputs
from shiftcal.methods import METHODS
from shiftcal.methods.networks.classifiers import Blueprint
from shiftcal.training import fitted_model
from shiftcal.training.fit import fit_model
from shiftcal.training.recipe import Recipe

NUM_CLASSES = 7  # as many as nothing else in these networks
NUM_ROWS = 56
ORDER = np.array([3, 0, 4, 6, 1, 2, 5])
"""The former number of each class."""
NOISY = ("bayes-by-backprop", "brer")


def problem(order: np.ndarray, *, images: bool) -> ShiftProblem:
    generator = np.random.default_rng(0)
    labels = np.arange(NUM_ROWS) % NUM_CLASSES
    values = 6 * np.eye(NUM_CLASSES, 9)[labels] + generator.normal(size=(NUM_ROWS, 9))
    if images:
        values = generator.uniform(size=(NUM_ROWS, 1, 8, 8)) / 4 + (labels / NUM_CLASSES)[:, None, None, None] / 2
    source, target = (torch.from_numpy(rows).float() for rows in (values, values + (0.1 if images else 1)))
    numbers = np.argsort(order)[labels]
    return ShiftProblem(
        LabelledDomain("source", ArrayInputs(source), numbers, tuple("abcdefg"[former] for former in order)),
        UnlabelledDomain("target", ArrayInputs(target)),
    )


def hold_out_by_row(domain: LabelledDomain, *_: Any) -> tuple[LabelledDomain, LabelledDomain]:
    rows = np.arange(len(domain), dtype=np.int64)
    return domain.subset(rows[14:]), domain.subset(rows[:14])


def permuted(build: Callable[[Any, Blueprint], nn.Module]) -> Callable[[Any, Blueprint], nn.Module]:
    """The same network with other numbers for its classes, in every tensor that has an entry for each."""

    def build_permuted(method: Any, blueprint: Blueprint) -> nn.Module:
        network, order = build(method, blueprint), torch.from_numpy(ORDER)
        for value in network.state_dict().values():
            for dimension, size in enumerate(value.shape):
                if size == NUM_CLASSES:
                    value.copy_(value.index_select(dimension, order))
                elif dimension and size == NUM_CLASSES * 256:  # features times classes, as cdan multiplies them
                    parts = value.unflatten(dimension, (256, NUM_CLASSES)).index_select(dimension + 1, order)
                    value.copy_(parts.flatten(dimension, dimension + 1))
        return network

    return build_permuted


def probabilities(given: ShiftProblem, name: str, backbone: nn.Module | None) -> Tensor:
    training = {"epochs": 30 if name in NOISY else 2, "batch_size": 20}
    model = fit_model(given, Recipe.from_names(name, None, backbone or "auto", training=training))
    assert given.target is not None
    return torch.softmax(model.predict(given.target.inputs).logits, dim=-1)


@pytest.mark.parametrize("name", METHODS)
def test_permuted_classes(name: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CalibrationData, "diagnose", lambda *_, **__: None)
    monkeypatch.setattr(fitted_model, "hold_out", hold_out_by_row)
    images = METHODS[name].needs_transformer
    backbone = request.getfixturevalue("tiny_transformer") if images else None
    expected = probabilities(problem(np.arange(NUM_CLASSES), images=images), name, backbone)
    monkeypatch.setattr(METHODS[name], "build", permuted(METHODS[name].build))
    found = probabilities(problem(ORDER, images=images), name, backbone)
    if name in NOISY:
        assert torch.equal(found.argmax(dim=-1), expected[:, ORDER].argmax(dim=-1))
    else:
        torch.testing.assert_close(found, expected[:, ORDER], atol=1e-5, rtol=0)
