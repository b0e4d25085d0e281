"""What every method of the registry must hold to; a new method is tested by being listed."""

import importlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.problems import estimate_coarsely, estimate_quickly, stop_training_after
from torch import nn

from shiftcal.core.errors import InvalidInputError, TrainingInterrupted
from shiftcal.core.options import describe
from shiftcal.data.batches import ShiftProblem
from shiftcal.data.inputs import ArrayInputs
from shiftcal.methods import METHODS
from shiftcal.training.fit import fit_model
from shiftcal.training.fitted_model import FittedModel
from shiftcal.training.recipe import Recipe
from shiftcal.training.saved_model import load_model, save_model

# One method after the other: its tests share what is trained.
pytestmark = pytest.mark.parametrize("name", METHODS, scope="module")


@pytest.fixture(scope="module", autouse=True)
def _estimate(name: str) -> Iterator[None]:
    """A whole estimate only for methods that label by it."""
    with pytest.MonkeyPatch.context() as patch:
        (estimate_coarsely if METHODS[name].judges_apart else estimate_quickly)(patch)
        yield


@pytest.fixture(scope="module")
def problem(name: str, request: pytest.FixtureRequest) -> ShiftProblem:
    """Features, or images for methods that take nothing else: seven steps in an epoch of batches of 16."""
    chosen: ShiftProblem = request.getfixturevalue("many_images" if METHODS[name].needs_transformer else "features")
    return chosen


@pytest.fixture(scope="module")
def own_backbone(name: str, request: pytest.FixtureRequest) -> nn.Module | None:
    """A vision transformer for methods that need one; None: the default will do."""
    transformer: nn.Module | None = None
    if METHODS[name].needs_transformer:
        transformer = request.getfixturevalue("tiny_transformer")
    return transformer


@pytest.fixture(scope="module")
def recipe(name: str, own_backbone: nn.Module | None) -> Callable[..., Recipe]:
    """Makes recipes of the method: two epochs, and further options."""

    def make(method_options: dict[str, Any] | None = None, **training: Any) -> Recipe:
        training = {"epochs": 2, "batch_size": 16, **training}
        return Recipe.from_names(name, None, own_backbone or "auto", method_options, training=training)

    return make


@pytest.fixture(scope="module")
def averaged(recipe: Callable[..., Recipe]) -> Recipe:
    """With all that training has a state of: moving average and clipping on."""
    return recipe({"ema_decay": 0.9}, gradient_clip=1.0)


@pytest.fixture(scope="module")
def model(averaged: Recipe, problem: ShiftProblem) -> FittedModel:
    """Trained without interruption, and without a trace in the caller's random state."""
    torch.manual_seed(5)
    trained = fit_model(problem, averaged)
    drawn = torch.rand(1)
    torch.manual_seed(5)
    assert torch.equal(drawn, torch.rand(1))
    return trained


def probabilities(model: FittedModel, problem: ShiftProblem) -> torch.Tensor:
    return torch.softmax(model.predict(problem.source.inputs).logits, dim=-1)


def test_it_stands_in_the_file_of_its_name_and_names_its_source(name: str) -> None:
    module = METHODS[name].__module__
    assert module == f"shiftcal.methods.{name.replace('-', '_')}"
    assert "loss" in (importlib.import_module(module).__doc__ or "")
    assert METHODS[name].__doc__
    assert all(doc for *_, doc in describe(METHODS[name]))


def test_it_trains_on_images_and_a_prediction_does_not_depend_on_the_other_rows(
    name: str, recipe: Callable[..., Recipe], images: ShiftProblem
) -> None:
    model = fit_model(images, recipe(epochs=1))
    values = images.source.inputs.fetch(np.arange(len(images.source), dtype=np.int64))
    together = model.predict(ArrayInputs(values)).logits
    assert torch.isfinite(together).all()
    alone = torch.cat([model.predict(ArrayInputs(values[row : row + 1])).logits for row in range(4)])
    torch.testing.assert_close(alone, together[:4], atol=1e-5, rtol=1e-5)


def test_it_trains_on_features_and_survives_saving(
    name: str, model: FittedModel, own_backbone: nn.Module | None, problem: ShiftProblem, tmp_path: Path
) -> None:
    outputs = model.predict(problem.source.inputs)
    assert outputs.logits.shape == (len(problem.source), len(problem.source.classes))
    assert torch.isfinite(outputs.logits).all()
    assert (outputs.density_ratio > 0).all()
    assert len(outputs.features) == len(problem.source)
    assert [record["epoch"] for record in model.history] == [1, 2]
    assert model.diagnosis is not None
    assert 0 < model.diagnosis.accuracy <= 1
    save_model(model, tmp_path / "model.pt")
    loaded = load_model(tmp_path / "model.pt", backbone=own_backbone)
    assert (loaded.classes, loaded.findings) == (model.classes, model.findings)
    assert torch.equal(loaded.predict(problem.source.inputs).logits, outputs.logits)


def test_it_takes_a_missing_target_or_says_so(
    name: str, recipe: Callable[..., Recipe], problem: ShiftProblem
) -> None:
    problem = replace(problem, target=None)
    if METHODS[name].needs_target:
        with pytest.raises(InvalidInputError, match="X_target"):
            fit_model(problem, recipe())
    else:
        outputs = fit_model(problem, recipe(epochs=1)).predict(problem.source.inputs)
        assert torch.equal(outputs.density_ratio, torch.ones(len(problem.source)))


def test_a_resumed_run_ends_where_an_uninterrupted_one_does(
    name: str,
    model: FittedModel,
    averaged: Recipe,
    problem: ShiftProblem,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Stopped in the middle of the second epoch, or at the end of the first; to the last bit, whatever was drawn."""
    torch.manual_seed(6)
    with monkeypatch.context() as patch:
        stop_training_after(patch, 7 if len(name) % 2 else 11)
        with pytest.raises(TrainingInterrupted):
            fit_model(problem, averaged, checkpoint=tmp_path / "c.pt")
    resumed = fit_model(problem, averaged, checkpoint=tmp_path / "c.pt", resume=True)
    assert torch.equal(probabilities(resumed, problem), probabilities(model, problem))
    assert without_time(resumed) == without_time(model)


def without_time(model: FittedModel) -> list[dict[str, float]]:
    return [{key: value for key, value in record.items() if key != "seconds"} for record in model.history]
