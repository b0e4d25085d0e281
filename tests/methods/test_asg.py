import math
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.special import softmax
from scipy.stats import entropy
from torch import nn
from torch.nn.functional import cross_entropy

from shiftcal.data.batches import Batch, ShiftProblem
from shiftcal.methods.asg import GuidedNetwork, ProxyGuidance
from shiftcal.methods.base import TASK
from shiftcal.methods.networks.backbones import InputStatistics, build_backbone
from shiftcal.methods.networks.classifiers import Blueprint
from shiftcal.training.fit import fit_model
from shiftcal.training.optimizers import build_optimizer
from shiftcal.training.recipe import Recipe
from shiftcal.training.saved_model import save_model

pytestmark = pytest.mark.usefixtures("quick_estimate")


def moved(network: GuidedNetwork) -> GuidedNetwork:
    """As after some training."""
    with torch.no_grad():
        for number, parameter in enumerate(network.task.parameters()):
            parameter.add_(0.3 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(number)))
    return network


def test_it_starts_as_source_only(blueprint: Blueprint, batch: Batch) -> None:
    method = ProxyGuidance()
    network = method.build(blueprint)
    (update,) = method.training_step(network, batch)
    assert update.logged["guidance_loss"].item() == pytest.approx(0, abs=1e-6)
    torch.testing.assert_close(update.loss, cross_entropy(network.task(batch.source_inputs)[0], batch.source_labels))


def test_guidance_against_scipy(blueprint: Blueprint, batch: Batch) -> None:
    method = ProxyGuidance(guidance_weight=0.4)
    network = moved(method.build(blueprint))
    (update,) = method.training_step(network, batch)
    taught, own = (
        backbone(batch.source_inputs).detach().double().numpy()
        for backbone in (network.teacher, network.task.backbone)
    )
    distributions = [
        softmax(features / np.sqrt((features**2).mean(axis=1, keepdims=True)), axis=1) for features in (taught, own)
    ]
    guidance = np.mean([entropy(*pair) for pair in zip(*distributions, strict=True)])
    assert guidance > 0.01
    task_loss = cross_entropy(network.task(batch.source_inputs)[0], batch.source_labels).item()
    assert update.loss.item() == pytest.approx(task_loss + 0.4 * guidance, rel=1e-5)


def test_the_backbone_takes_smaller_steps_and_the_teacher_none(blueprint: Blueprint, batch: Batch) -> None:
    method = ProxyGuidance(learning_rate=0.2, backbone_factor=0.05, optimizer="sgd", weight_decay=0.0)
    network = moved(method.build(blueprint))
    before = {name: value.clone() for name, value in network.named_parameters()}
    optimizer = build_optimizer(method.optimizers(network)[TASK])
    assert [group["lr"] for group in optimizer.param_groups] == pytest.approx([0.2, 0.01])
    (update,) = method.training_step(network, batch)
    update.loss.backward()  # type: ignore[no-untyped-call]
    optimizer.step()
    for name, value in network.named_parameters():
        if name.startswith("teacher."):
            assert torch.equal(value, before[name])
        else:
            # The first step of Nesterov momentum 0.9 is 1.9 gradients.
            rate = 0.01 if "backbone" in name else 0.2
            assert value.grad is not None
            torch.testing.assert_close(value, before[name] - 1.9 * rate * value.grad)


def test_the_teacher_keeps_its_batch_statistics(batch: Batch) -> None:
    statistics = InputStatistics(torch.zeros(4), torch.ones(4))
    torch.manual_seed(0)
    blueprint = Blueprint(lambda: build_backbone(nn.BatchNorm1d(4), (4,), statistics), 3, has_target=True)
    network = ProxyGuidance().build(blueprint)
    list(ProxyGuidance().training_step(network, batch))
    assert network.teacher.body.state_dict()["running_mean"].abs().sum() == 0
    assert network.task.backbone.body.state_dict()["running_mean"].abs().sum() > 0


def test_a_heavy_weight_keeps_the_features(features: ShiftProblem) -> None:
    def distance(weight: float) -> float:
        options = {"guidance_weight": weight, "backbone_factor": 1.0}
        how = Recipe.from_names("asg", method_options=options, training={"epochs": 10, "batch_size": 32})
        return fit_model(features, how).history[-1]["guidance_loss"]

    assert distance(100.0) < 0.5 * distance(0.0)


def test_it_can_start_from_a_run_and_self_training_from_it(features: ShiftProblem, tmp_path: Path) -> None:
    """The teacher is then the network of that run."""

    def fitted(method: str, options: dict[str, float], initial_run: str | None) -> nn.Module:
        training = {"epochs": 2, "batch_size": 16, "initial_run": initial_run}
        model = fit_model(features, Recipe.from_names(method, method_options=options, training=training))
        (tmp_path / method).mkdir()
        save_model(model, tmp_path / method / "checkpoint.pt")
        return model.network

    source_only = fitted("source-only", {}, None)
    guided = fitted("asg", {}, str(tmp_path / "source-only"))
    assert isinstance(guided, GuidedNetwork)
    for name, value in guided.teacher.state_dict().items():
        assert torch.equal(value, source_only.state_dict()[f"backbone.{name}"])
    tiny = {"warmup_share": 0.0, "learning_rate": 1e-12, "weight_decay": 0.0}
    after = fitted("cbst", tiny, str(tmp_path / "asg")).state_dict()
    for name, value in guided.task.state_dict().items():
        torch.testing.assert_close(after[name], value, atol=1e-7, rtol=0)
    assert math.isfinite(sum(float(value.sum()) for value in after.values()))
