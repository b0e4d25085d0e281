import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from shiftcal.core.errors import TrainingInterrupted
from shiftcal.data.batches import Batch, ShiftProblem
from shiftcal.data.views import ViewMaker
from shiftcal.methods.base import TASK
from shiftcal.methods.drssl import DistributionallyRobustSemiSupervised
from shiftcal.methods.drst import DistributionallyRobustSelfTraining
from shiftcal.methods.networks.backbones import InputStatistics, build_backbone
from shiftcal.methods.networks.classifiers import Blueprint, Classifier
from shiftcal.methods.shared.self_training_network import SelfTrainingNetwork
from shiftcal.methods.shared.source_reference import REFERENCE
from shiftcal.training.fit import fit_model
from shiftcal.training.fitted_model import FittedModel
from shiftcal.training.recipe import Recipe
from shiftcal.training.saved_model import load_model, save_model
from shiftcal.training.training_progress import EpochRecord

pytestmark = pytest.mark.usefixtures("coarse_estimate")
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


@pytest.fixture(scope="module", params=["drst", "drssl"])
def recipe(request: pytest.FixtureRequest) -> Recipe:
    options = {"warmup_share": 0.5} if request.param == "drst" else {"warmup_share": 0.5, "unlabelled_multiple": 1}
    training = {"epochs": 2, "batch_size": 16, "validation_fraction": 0.3}
    return Recipe.from_names(request.param, "target-scaling", method_options=options, training=training)


@pytest.fixture(scope="module")
def adapted(recipe: Recipe, images: ShiftProblem) -> FittedModel:
    return fit_model(images, recipe)


def test_it_learns_from_source_rows_alone_and_predicts_nothing(image_blueprint: Blueprint) -> None:
    batch = image_batch([False, True] * 3)
    method = DistributionallyRobustSelfTraining()
    network = method.build(image_blueprint).eval()
    assert network.reference is not None
    (update,) = method.training_step(network, batch)
    assert (update.optimizer, *update.beside) == (TASK, REFERENCE)
    expected = cross_entropy(network.reference(batch.source_inputs[::2])[0], batch.source_labels[::2])
    assert update.beside[REFERENCE].item() == pytest.approx(expected.item(), rel=1e-6)
    before = method.predict(network, batch.source_inputs).logits
    judged = method.judged_outputs(network, batch.source_inputs)
    scramble(network.reference)
    assert torch.equal(method.predict(network, batch.source_inputs).logits, before)
    again = method.judged_outputs(network, batch.source_inputs)
    assert torch.equal(again[0], judged[0])
    assert not torch.equal(again[1], judged[1])


def test_only_what_labels_images_itself_has_one(blueprint: Blueprint, image_blueprint: Blueprint) -> None:
    assert DistributionallyRobustSelfTraining().build(blueprint).reference is None
    for method in (
        DistributionallyRobustSelfTraining(source_reference=False),
        DistributionallyRobustSelfTraining(labelling="confidence"),
        DistributionallyRobustSemiSupervised(labelling="confidence"),
    ):
        network = method.build(image_blueprint)
        assert network.reference is None
        assert REFERENCE not in method.optimizers(network)


def test_a_calibrator_is_fitted_to_a_loaded_model_as_after_training(
    adapted: FittedModel, images: ShiftProblem, tmp_path: Path
) -> None:
    """The reference stays with the model: `compare` puts calibrators behind models that were saved."""
    assert isinstance(adapted.network, SelfTrainingNetwork)
    assert adapted.network.reference is not None
    save_model(adapted, tmp_path / "model.pt")
    loaded = load_model(tmp_path / "model.pt")
    again = loaded.with_calibrator("target-scaling", images)
    assert again.findings == adapted.findings
    assert images.target is not None
    expected, found = (model.predict(images.target.inputs).logits for model in (adapted, again))
    torch.testing.assert_close(found, expected)


def test_an_interrupted_run_goes_on_with_it(
    adapted: FittedModel, recipe: Recipe, images: ShiftProblem, tmp_path: Path
) -> None:
    def interrupt(history: list[EpochRecord]) -> None:
        if len(history) == 1:
            os.kill(os.getpid(), signal.SIGTERM)

    with pytest.raises(TrainingInterrupted):
        fit_model(images, recipe, checkpoint=tmp_path / "c.pt", after_epoch=interrupt)
    resumed = fit_model(images, recipe, checkpoint=tmp_path / "c.pt", resume=True)
    assert resumed.findings == adapted.findings
    assert torch.equal(resumed.predict(images.source.inputs).logits, adapted.predict(images.source.inputs).logits)


def test_it_does_not_start_from_a_classifier_that_knows_the_target(image_blueprint: Blueprint) -> None:
    weights = Classifier(image_blueprint).weights()
    for knows_target in (False, True):
        blueprint = replace(image_blueprint, initial_weights=weights, initial_weights_know_target=knows_target)
        network = DistributionallyRobustSelfTraining().build(blueprint)
        assert network.reference is not None
        assert torch.equal(network.task.head.weight, weights["head.weight"])
        assert torch.equal(network.reference.head.weight, weights["head.weight"]) is not knows_target


def test_a_single_source_row_has_no_batch_statistics() -> None:
    body = nn.Sequential(nn.Flatten(), nn.Linear(256, 8), nn.BatchNorm1d(8))
    blueprint = Blueprint(lambda: build_backbone(body, (1, 16, 16), STATISTICS), 3, has_target=True)
    method = DistributionallyRobustSelfTraining()
    network = method.build(blueprint).train()
    (update,) = method.training_step(network, image_batch([False, True, True]))
    assert torch.isfinite(update.beside[REFERENCE])


def scramble(network: nn.Module) -> None:
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for weights in network.parameters():
            weights.normal_(generator=generator)
