"""The twin of `drst` and `drssl`; their labels are tested with `drst`."""

import os
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from shiftcal.core.errors import TrainingInterrupted
from shiftcal.data.batches import Batch, ShiftProblem
from shiftcal.data.inputs import Inputs
from shiftcal.data.views import ViewMaker
from shiftcal.methods.base import RATIO, TASK, Evidence
from shiftcal.methods.drl import DistributionallyRobust, RobustNetwork
from shiftcal.methods.drssl import DistributionallyRobustSemiSupervised
from shiftcal.methods.drst import DistributionallyRobustSelfTraining
from shiftcal.methods.networks.backbones import InputStatistics, build_backbone
from shiftcal.methods.networks.classifiers import Blueprint, Classifier
from shiftcal.methods.shared.robust_labelling import TWIN, RobustLabelling
from shiftcal.training.fit import fit_model
from shiftcal.training.fitted_model import FittedModel, load_model
from shiftcal.training.recipe import Recipe
from shiftcal.training.trainer import EpochRecord

STATISTICS = InputStatistics(torch.zeros(1), torch.ones(1))


@pytest.fixture
def image_blueprint() -> Blueprint:
    torch.manual_seed(0)
    return Blueprint(lambda: build_backbone("small-cnn", (1, 16, 16), STATISTICS), 3, has_target=True)


def image_batch(is_pseudo: list[bool]) -> Batch:
    count = len(is_pseudo)
    inputs, target = torch.rand(2, count, 1, 16, 16, generator=torch.Generator().manual_seed(0))
    labels = torch.arange(count) % 3
    views = ViewMaker(0, 0)
    return Batch(
        inputs, labels, torch.eye(3)[labels], torch.tensor(is_pseudo), target, torch.arange(count), views, 0.5
    )


@pytest.fixture(params=["drst", "drssl"])
def recipe(request: pytest.FixtureRequest) -> Recipe:
    options = {"warmup_share": 0.5} if request.param == "drst" else {"warmup_share": 0.5, "unlabelled_multiple": 1}
    training = {"epochs": 2, "batch_size": 16, "validation_fraction": 0.3}
    return Recipe.from_names(request.param, method_options=options, training=training)


@pytest.fixture
def taught(recipe: Recipe, images: ShiftProblem) -> FittedModel:
    return fit_model(images, recipe)


def test_the_twin_learns_from_source_rows_alone_and_predicts_nothing(image_blueprint: Blueprint) -> None:
    batch = image_batch([False, True] * 3)
    method = DistributionallyRobustSelfTraining()
    network = method.build(image_blueprint).eval()
    assert network.twin is not None
    update, *others = method.training_step(network, batch)
    assert update.optimizer == TWIN
    expected = cross_entropy(network.twin(batch.source_inputs[::2])[0], batch.source_labels[::2])
    assert update.loss.item() == pytest.approx(expected.item(), rel=1e-6)
    assert {update.optimizer for update in others} == {RATIO, TASK}
    before = method.predict(network, batch.source_inputs).logits
    scramble(network.twin)
    assert torch.equal(method.predict(network, batch.source_inputs).logits, before)


def test_only_what_is_taught_on_images_has_a_twin(blueprint: Blueprint, image_blueprint: Blueprint) -> None:
    assert DistributionallyRobustSelfTraining().build(blueprint).twin is None
    for method in (
        DistributionallyRobustSelfTraining(twin=False),
        DistributionallyRobustSelfTraining(ratio_strength=1.0),
        DistributionallyRobustSemiSupervised(ratio_strength=1.0),
        DistributionallyRobust(),
    ):
        network = method.build(image_blueprint)
        assert network.twin is None
        assert TWIN not in method.optimizers(network)


@pytest.mark.parametrize(
    "method", [DistributionallyRobustSelfTraining(), DistributionallyRobustSemiSupervised()], ids=["drst", "drssl"]
)
def test_the_accuracy_to_be_expected_is_judged_in_the_features_of_the_twin(
    method: RobustLabelling, images: ShiftProblem
) -> None:
    torch.manual_seed(0)
    shape = images.source.inputs.shape
    statistics = InputStatistics(torch.zeros(shape[0]), torch.ones(shape[0]))
    blueprint = Blueprint(
        lambda: build_backbone("small-cnn", shape, statistics), len(images.source.classes), has_target=True
    )
    network = method.build(blueprint).eval()
    assert network.twin is not None
    evidence = Evidence(images.source, images.source, images.target, observe_all)
    found = method.find_strength(network, evidence)
    assert method.find_strength(network, evidence) == found
    scramble(network.twin)
    other = method.find_strength(network, evidence)
    assert other["cluster_compactness"] != found["cluster_compactness"]
    assert other["separation"] == found["separation"]
    assert method.conclude(network, evidence) == other
    assert network.twin is None


def test_what_was_expected_before_is_reported_where_it_has_a_say(taught: FittedModel) -> None:
    assert ("untaught_accuracy" in taught.findings) is (taught.findings["trust"] < 1)


def test_a_taught_model_predicts_the_same_when_it_is_loaded(
    taught: FittedModel, images: ShiftProblem, tmp_path: Path
) -> None:
    assert isinstance(taught.network, RobustNetwork)
    assert taught.network.twin is None
    taught.save(tmp_path / "model.pt")
    again = load_model(tmp_path / "model.pt")
    assert images.target is not None
    expected, found = (model.predict(images.target.inputs).logits for model in (taught, again))
    torch.testing.assert_close(found, expected)


def test_an_interrupted_run_goes_on_with_its_twin(
    taught: FittedModel, recipe: Recipe, images: ShiftProblem, tmp_path: Path
) -> None:
    def interrupt(history: list[EpochRecord]) -> None:
        if len(history) == 1:
            os.kill(os.getpid(), signal.SIGTERM)

    with pytest.raises(TrainingInterrupted):
        fit_model(images, recipe, checkpoint=tmp_path / "c.pt", after_epoch=interrupt)
    resumed = fit_model(images, recipe, checkpoint=tmp_path / "c.pt", resume=True)
    assert resumed.findings == taught.findings
    assert torch.equal(resumed.predict(images.source.inputs).logits, taught.predict(images.source.inputs).logits)


def test_the_twin_does_not_start_from_a_classifier_that_knows_the_target(image_blueprint: Blueprint) -> None:
    weights = Classifier(image_blueprint).weights()
    for knows_target in (False, True):
        blueprint = replace(image_blueprint, initial_weights=weights, initial_weights_know_target=knows_target)
        network = DistributionallyRobustSelfTraining().build(blueprint)
        assert network.twin is not None
        assert torch.equal(network.task.head.weight, weights["head.weight"])
        assert torch.equal(network.twin.head.weight, weights["head.weight"]) is not knows_target


def test_a_single_source_row_has_no_batch_statistics() -> None:
    body = nn.Sequential(nn.Flatten(), nn.Linear(256, 8), nn.BatchNorm1d(8))
    blueprint = Blueprint(lambda: build_backbone(body, (1, 16, 16), STATISTICS), 3, has_target=True)
    method = DistributionallyRobustSelfTraining()
    network = method.build(blueprint).train()
    update, *_ = method.training_step(network, image_batch([False, True, True]))
    assert update.optimizer == TWIN
    assert torch.isfinite(update.loss)


def scramble(network: nn.Module) -> None:
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for weights in network.parameters():
            weights.normal_(generator=generator)


@torch.no_grad()
def observe_all(function: Callable[[Tensor], tuple[Tensor, ...]], inputs: Inputs) -> tuple[Tensor, ...]:
    return function(inputs.fetch(np.arange(len(inputs), dtype=np.int64)))
