"""What every method of the registry must hold to; a new method is tested by being listed."""

import importlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from shiftcal.core.errors import InvalidInputError, TrainingInterrupted
from shiftcal.core.options import describe
from shiftcal.data.batches import ShiftProblem
from shiftcal.data.inputs import ArrayInputs
from shiftcal.methods import METHODS
from shiftcal.training.fit import fit_model
from shiftcal.training.fitted_model import FittedModel, load_model
from shiftcal.training.recipe import Recipe

pytestmark = pytest.mark.parametrize("name", METHODS)


@pytest.fixture
def problem(name: str, request: pytest.FixtureRequest) -> ShiftProblem:
    """Features, or images for methods that take nothing else: seven steps in an epoch of batches of 16."""
    chosen: ShiftProblem = request.getfixturevalue("many_images" if METHODS[name].needs_transformer else "features")
    return chosen


@pytest.fixture
def own_backbone(name: str, request: pytest.FixtureRequest) -> nn.Module | None:
    """A vision transformer for methods that need one; None: the default will do."""
    transformer: nn.Module | None = None
    if METHODS[name].needs_transformer:
        transformer = request.getfixturevalue("tiny_transformer")
    return transformer


@pytest.fixture
def recipe(name: str, own_backbone: nn.Module | None) -> Callable[..., Recipe]:
    """Makes recipes of the method: two epochs, and further options."""

    def make(method_options: dict[str, Any] | None = None, **training: Any) -> Recipe:
        training = {"epochs": 2, "batch_size": 16, **training}
        return Recipe.from_names(name, None, own_backbone or "auto", method_options, training=training)

    return make


def probabilities(model: FittedModel, problem: ShiftProblem) -> torch.Tensor:
    return torch.softmax(model.predict(problem.source.inputs).logits, dim=-1)


def test_it_stands_in_the_file_of_its_name_and_names_its_source(name: str) -> None:
    module = METHODS[name].__module__
    assert module == f"shiftcal.methods.{name.replace('-', '_')}"
    assert "loss" in (importlib.import_module(module).__doc__ or "")
    assert METHODS[name].__doc__


def test_every_option_is_documented(name: str) -> None:
    assert all(doc for *_, doc in describe(METHODS[name]))


@pytest.mark.parametrize("fixture", ["features", "images"])
def test_it_trains_and_predicts(
    name: str, fixture: str, recipe: Callable[..., Recipe], request: pytest.FixtureRequest
) -> None:
    problem: ShiftProblem = request.getfixturevalue(fixture)
    if fixture == "features" and METHODS[name].needs_transformer:
        with pytest.raises(InvalidInputError, match="vit_tiny_patch16_224"):
            fit_model(problem, Recipe.from_names(name))
        return
    model = fit_model(problem, recipe())
    outputs = model.predict(problem.source.inputs)
    assert outputs.logits.shape == (len(problem.source), len(problem.source.classes))
    assert torch.isfinite(outputs.logits).all()
    assert (outputs.density_ratio > 0).all()
    assert len(outputs.features) == len(problem.source)
    assert [record["epoch"] for record in model.history] == [1, 2]


def test_a_prediction_does_not_depend_on_the_other_rows(
    name: str, recipe: Callable[..., Recipe], images: ShiftProblem
) -> None:
    model = fit_model(images, recipe())
    values = images.source.inputs.fetch(np.arange(len(images.source), dtype=np.int64))
    together = model.predict(ArrayInputs(values)).logits
    alone = torch.cat([model.predict(ArrayInputs(values[row : row + 1])).logits for row in range(4)])
    torch.testing.assert_close(alone, together[:4], atol=1e-5, rtol=1e-5)


def test_it_is_deterministic_for_a_seed_and_leaves_the_callers_random_state(
    name: str, recipe: Callable[..., Recipe], problem: ShiftProblem
) -> None:
    torch.manual_seed(5)
    first = probabilities(fit_model(problem, recipe()), problem)
    drawn = torch.rand(1)
    second = probabilities(fit_model(problem, recipe()), problem)
    torch.manual_seed(5)
    assert torch.equal(drawn, torch.rand(1))
    assert torch.equal(first, second)
    other = probabilities(fit_model(problem, recipe(random_state=1)), problem)
    assert not torch.equal(first, other)


def test_it_survives_saving(
    name: str,
    recipe: Callable[..., Recipe],
    own_backbone: nn.Module | None,
    problem: ShiftProblem,
    tmp_path: Path,
) -> None:
    model = fit_model(problem, recipe())
    model.save(tmp_path / "model.pt")
    loaded = load_model(tmp_path / "model.pt", backbone=own_backbone)
    assert loaded.classes == model.classes
    assert torch.equal(probabilities(loaded, problem), probabilities(model, problem))


def test_it_takes_a_missing_target_or_says_so(
    name: str, recipe: Callable[..., Recipe], problem: ShiftProblem
) -> None:
    problem = replace(problem, target=None)
    if METHODS[name].needs_target:
        with pytest.raises(InvalidInputError, match="X_target"):
            fit_model(problem, recipe())
    else:
        outputs = fit_model(problem, recipe()).predict(problem.source.inputs)
        assert torch.equal(outputs.density_ratio, torch.ones(len(problem.source)))


@pytest.mark.parametrize("stop_after", [3, 7, 11])
def test_a_resumed_run_ends_where_an_uninterrupted_one_does(
    name: str,
    stop_after: int,
    recipe: Callable[..., Recipe],
    problem: ShiftProblem,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Stopped at any step, in the middle or at the end of an epoch; with moving average and clipping on."""
    how = recipe({"ema_decay": 0.9}, gradient_clip=1.0)
    whole = fit_model(problem, how)

    with monkeypatch.context() as patch:
        stop_training_after(patch, stop_after)
        with pytest.raises(TrainingInterrupted):
            fit_model(problem, how, checkpoint=tmp_path / "c.pt")
    resumed = fit_model(problem, how, checkpoint=tmp_path / "c.pt", resume=True)

    assert torch.equal(probabilities(resumed, problem), probabilities(whole, problem))
    assert without_time(resumed) == without_time(whole)


def stop_training_after(patch: pytest.MonkeyPatch, num_steps: int) -> None:
    """Pretend that a signal came during the step of that number."""

    def requested() -> Iterator[bool]:
        yield from [False] * (num_steps - 1)
        while True:
            yield True

    answers = requested()
    patch.setattr("shiftcal.training.trainer.any_process", lambda fabric, flag: next(answers))


def without_time(model: FittedModel) -> list[dict[str, float]]:
    return [{key: value for key, value in record.items() if key != "seconds"} for record in model.history]
