from pathlib import Path

import pytest
import torch
from tests.problems import stop_training_after
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

from shiftcal.core.errors import TrainingInterrupted
from shiftcal.data.batches import Batch, ShiftProblem
from shiftcal.methods.adda import DOMAIN, ENCODER, AdversarialDiscriminative, TwoEncoderNetwork
from shiftcal.methods.base import TASK
from shiftcal.methods.networks.backbones import InputStatistics, build_backbone
from shiftcal.methods.networks.classifiers import Blueprint
from shiftcal.training.fit import fit_model
from shiftcal.training.optimizers import build_optimizer
from shiftcal.training.recipe import Recipe

pytestmark = pytest.mark.usefixtures("quick_estimate")


def built(method: AdversarialDiscriminative, blueprint: Blueprint) -> TwoEncoderNetwork:
    """A network whose discriminator is not yet undecided."""
    network = method.build(blueprint)
    with torch.no_grad():
        for parameter in network.domain.parameters():
            parameter.normal_(std=0.02, generator=torch.Generator().manual_seed(0))
    return network


def step(method: AdversarialDiscriminative, network: TwoEncoderNetwork, batch: Batch) -> set[str]:
    """Carry out a training step; the names of the parameters that changed."""
    optimizers = {name: build_optimizer(plan) for name, plan in method.optimizers(network).items()}
    before = {name: value.clone() for name, value in network.named_parameters()}
    for update in method.training_step(network, batch):
        network.zero_grad()
        update.loss.backward()  # type: ignore[no-untyped-call]
        optimizers[update.optimizer].step()
    return {name for name, value in network.named_parameters() if not value.equal(before[name])}


def test_the_first_stage_is_source_only(blueprint: Blueprint, batch: Batch) -> None:
    method = AdversarialDiscriminative(source_share=0.6)
    network = built(method, blueprint)
    (update,) = method.training_step(network, batch)
    assert update.optimizer == TASK
    torch.testing.assert_close(update.loss, cross_entropy(network.task(batch.source_inputs)[0], batch.source_labels))
    assert {name.split(".")[0] for name in step(method, network, batch)} == {"task"}
    assert not network.is_adapting


def test_losses_of_the_second_stage(blueprint: Blueprint, batch: Batch) -> None:
    """Nothing is stepped here, so both losses are of the same network."""
    method = AdversarialDiscriminative(source_share=0.5)
    network = built(method, blueprint)
    with torch.no_grad():  # what was trained so far is to be the source encoder, not what it started as
        for parameter in network.task.backbone.parameters():
            parameter.add_(0.1)
    assert batch.target_inputs is not None
    source, target = (network.domain(network.task(x)[1]) for x in (batch.source_inputs, batch.target_inputs))
    ones = torch.ones(16)

    telling_apart, mapping = method.training_step(network, batch)
    assert (telling_apart.optimizer, mapping.optimizer) == (DOMAIN, ENCODER)
    told = binary_cross_entropy_with_logits(source, ones) + binary_cross_entropy_with_logits(target, 0 * ones)
    torch.testing.assert_close(telling_apart.loss, told / 2)
    torch.testing.assert_close(mapping.loss, binary_cross_entropy_with_logits(target, ones))


def test_only_target_encoder_and_discriminator_move_after_the_switch(blueprint: Blueprint, batch: Batch) -> None:
    method = AdversarialDiscriminative(source_share=0.5)
    network = built(method, blueprint)
    step(method, network, batch._replace(progress=0.4))
    source_encoder = {name: value.clone() for name, value in network.task.backbone.state_dict().items()}
    head = network.task.head.weight.clone()
    step(method, network, batch)
    for _ in range(2):
        changed = step(method, network, batch)
        assert {name.removeprefix("task.").split(".")[0] for name in changed} == {"backbone", "domain"}
    assert network.is_adapting
    assert torch.equal(network.task.head.weight, head)
    for name, value in network.source_encoder.state_dict().items():
        assert torch.equal(value, source_encoder[name])
    assert any(not value.equal(source_encoder[name]) for name, value in network.task.backbone.state_dict().items())


def test_the_source_encoder_keeps_its_batch_statistics(batch: Batch) -> None:
    torch.manual_seed(0)
    statistics = InputStatistics(torch.zeros(4), torch.ones(4))
    body = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
    blueprint = Blueprint(lambda: build_backbone(body, (4,), statistics), 3, has_target=True)
    method = AdversarialDiscriminative(source_share=0.5)
    network = built(method, blueprint)
    step(method, network, batch._replace(progress=0.0))
    kept = network.task.backbone.body.state_dict()["1.running_mean"].clone()
    step(method, network, batch)
    assert torch.equal(network.source_encoder.body.state_dict()["1.running_mean"], kept)
    assert not torch.equal(network.task.backbone.body.state_dict()["1.running_mean"], kept)


def test_it_resumes_exactly_across_the_switch(
    features: ShiftProblem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seven steps an epoch: stopped right before the switch, at it and after it, with a moving average."""
    how = Recipe.from_names(
        "adda",
        method_options={"ema_decay": 0.9},
        training={"epochs": 2, "batch_size": 16, "validation_fraction": 0.1},
    )
    whole = fit_model(features, how)
    assert bool(whole.network.is_adapting)
    for stop_after in (6, 7, 8, 10):
        checkpoint = tmp_path / f"{stop_after}.pt"
        with monkeypatch.context() as patch:
            stop_training_after(patch, stop_after)
            with pytest.raises(TrainingInterrupted):
                fit_model(features, how, checkpoint=checkpoint)
        resumed = fit_model(features, how, checkpoint=checkpoint, resume=True)
        for name, value in whole.network.state_dict().items():
            assert torch.equal(resumed.network.state_dict()[name], value)


def test_predictions_are_by_the_target_encoder(blueprint: Blueprint, batch: Batch) -> None:
    method = AdversarialDiscriminative(source_share=0.5)
    network = built(method, blueprint)
    step(method, network, batch)
    with torch.no_grad():
        outputs = method.predict(network, batch.source_inputs)
        torch.testing.assert_close(outputs.features, network.task.backbone(batch.source_inputs))
        assert not torch.equal(outputs.features, network.source_encoder(batch.source_inputs))
