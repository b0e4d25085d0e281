"""Starting from another run."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from shiftcal.core.errors import CheckpointError, InvalidInputError
from shiftcal.data.batches import ShiftProblem
from shiftcal.methods import METHODS
from shiftcal.methods.networks.backbones import InputStatistics, build_backbone
from shiftcal.methods.networks.classifiers import Blueprint, Classifier
from shiftcal.runs.folder import RunFolder
from shiftcal.training.fit import fit_model
from shiftcal.training.fitted_model import FittedModel
from shiftcal.training.recipe import Recipe

pytestmark = pytest.mark.usefixtures("quick_estimate")

# A step that changes nothing to speak of: what is trained is then what training started from.
STANDSTILL = {"learning_rate": 1e-12, "weight_decay": 0.0}


def recipe(method: str, method_options: dict[str, Any] | None = None, **further: Any) -> Recipe:
    backbone = further.pop("backbone", "auto")
    training = {"epochs": 2, "batch_size": 32, "checkpoint_seconds": 0.0, **further}
    return Recipe.from_names(method, backbone=backbone, method_options=method_options, training=training)


def first_classifier(network: nn.Module) -> Classifier:
    return next(module for module in network.modules() if isinstance(module, Classifier))


@pytest.fixture(scope="module")
def model(features: ShiftProblem, quick_estimate: None) -> FittedModel:
    """Of DRL, whose classifier is a part of its network."""
    return fit_model(features, recipe("drl", epochs=20))


@pytest.fixture
def run(model: FittedModel, tmp_path: Path) -> tuple[FittedModel, str]:
    """The model and the folder of its finished run."""
    RunFolder(tmp_path / "first").write_model(model)
    return model, str(tmp_path / "first")


@pytest.mark.parametrize("method", [name for name in METHODS if not METHODS[name].needs_transformer])
def test_every_method_can_start_from_a_classifier(method: str) -> None:
    statistics = InputStatistics(torch.zeros(4), torch.ones(4))
    plain = Blueprint(lambda: build_backbone("mlp", (4,), statistics), 3, has_target=True, num_target_rows=120)
    weights = Classifier(plain).weights()
    blueprint = replace(plain, initial_weights=weights)
    network = METHODS[method]().build(blueprint)
    found = [module.weights() for module in network.modules() if isinstance(module, Classifier)]
    assert found
    for own in found:
        assert own.keys() == weights.keys()
        assert all(torch.equal(own[name], value) for name, value in weights.items())


def test_training_starts_from_the_run_and_leaves_the_callers_random_state(
    features: ShiftProblem, run: tuple[FittedModel, str]
) -> None:
    first, folder = run
    torch.manual_seed(3)
    second = fit_model(features, recipe("cbst", STANDSTILL, initial_run=folder))
    drawn = torch.rand(1)
    torch.manual_seed(3)
    assert torch.equal(drawn, torch.rand(1))
    for name, value in first_classifier(first.network).weights().items():
        torch.testing.assert_close(first_classifier(second.network).weights()[name], value, atol=1e-6, rtol=0)


def test_the_run_decides_about_the_result_and_is_recorded(
    features: ShiftProblem, run: tuple[FittedModel, str]
) -> None:
    _, folder = run
    plain, started = (fit_model(features, recipe("source-only", initial_run=start)) for start in (None, folder))
    assert started.history[0]["task_loss"] < 0.5 * plain.history[0]["task_loss"]
    assert started.recipe.as_plain()["training"]["initial_run"] == folder


def test_a_run_goes_on_without_the_one_that_it_started_from(
    features: ShiftProblem, run: tuple[FittedModel, str], tmp_path: Path
) -> None:
    _, folder = run
    how = recipe("asg", initial_run=folder)
    whole = fit_model(features, how)

    def stop(history: list[dict[str, float]]) -> None:
        if len(history) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit_model(features, how, checkpoint=tmp_path / "c.pt", after_epoch=stop)
    RunFolder(Path(folder)).checkpoint.unlink()
    resumed = fit_model(features, how, checkpoint=tmp_path / "c.pt", resume=True)
    for name, value in whole.network.state_dict().items():
        assert torch.equal(resumed.network.state_dict()[name], value)
    with pytest.raises(CheckpointError, match="no checkpoint at"):
        fit_model(features, how)


def test_a_module_of_the_users_own_can_start_from_a_run_of_it(features: ShiftProblem, tmp_path: Path) -> None:
    body = nn.Sequential(nn.Linear(4, 6), nn.Tanh())
    first = fit_model(features, recipe("source-only", backbone=body))
    RunFolder(tmp_path).write_model(first)
    second = fit_model(features, recipe("cbst", STANDSTILL, backbone=body, initial_run=str(tmp_path)))
    for name, value in first_classifier(first.network).weights().items():
        torch.testing.assert_close(first_classifier(second.network).weights()[name], value, atol=1e-6, rtol=0)


def test_what_does_not_fit_is_said(
    features: ShiftProblem, run: tuple[FittedModel, str], images: ShiftProblem
) -> None:
    _, folder = run
    with pytest.raises(InvalidInputError, match="another form"):
        fit_model(features, recipe("source-only", initial_run=folder, backbone="linear"))
    with pytest.raises(InvalidInputError, match="expected a run on data like the source's"):
        fit_model(images, recipe("source-only", initial_run=folder))
    renamed = replace(features, source=replace(features.source, classes=("c", "b", "a")))
    with pytest.raises(InvalidInputError, match="'c', 'b', 'a'"):
        fit_model(renamed, recipe("source-only", initial_run=folder))
    with pytest.raises(CheckpointError, match="expected the folder of a run"):
        fit_model(features, recipe("source-only", initial_run=folder + "-of-nobody"))


def test_a_network_without_a_classifier_is_no_start(
    features: ShiftProblem, run: tuple[FittedModel, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    model, folder = run
    monkeypatch.setattr(
        "shiftcal.training.fit.load_model", lambda path, backbone: replace(model, network=nn.Linear(4, 3))
    )
    with pytest.raises(InvalidInputError, match="a method that trains a classifier"):
        fit_model(features, recipe("source-only", initial_run=folder))
