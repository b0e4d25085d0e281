from pathlib import Path
from typing import Any

import pytest
import torch
from tests.problems import stop_training_after
from torch import Tensor, nn
from torch.distributions import Categorical, kl_divergence
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

from shiftcal.core.errors import TrainingInterrupted
from shiftcal.data.batches import Batch, ShiftProblem
from shiftcal.methods.base import TASK, Update
from shiftcal.methods.networks.backbones import InputStatistics, build_backbone
from shiftcal.methods.networks.classifiers import Blueprint
from shiftcal.methods.vada import DOMAIN, AdversarialNetwork, VirtualAdversarial
from shiftcal.training.fit import fit_model
from shiftcal.training.fitted_model import FittedModel
from shiftcal.training.recipe import Recipe

pytestmark = pytest.mark.usefixtures("quick_estimate")


def built(method: VirtualAdversarial, blueprint: Blueprint) -> AdversarialNetwork:
    """A network whose discriminator is not yet undecided."""
    network = method.build(blueprint)
    with torch.no_grad():
        for parameter in network.domain.parameters():
            parameter.normal_(std=0.02, generator=torch.Generator().manual_seed(0))
    return network


def test_without_weights_it_is_source_only(blueprint: Blueprint, batch: Batch) -> None:
    method = VirtualAdversarial(domain_weight=0.0, source_weight=0.0, target_weight=0.0)
    network = built(method, blueprint)
    _, update = method.training_step(network, batch)
    torch.testing.assert_close(update.loss, cross_entropy(network.task(batch.source_inputs)[0], batch.source_labels))


def test_domain_losses_by_hand_and_the_network_works_against_the_discriminator(
    blueprint: Blueprint, batch: Batch
) -> None:
    method = VirtualAdversarial(domain_weight=1.0, source_weight=0.0, target_weight=0.0)
    network = built(method, blueprint)
    assert batch.target_inputs is not None
    source, target = (network.domain(network.task(x)[1]) for x in (batch.source_inputs, batch.target_inputs))
    ones = torch.ones(16)

    def domain_cross_entropy(source_label: Tensor, target_label: Tensor) -> Tensor:
        terms = ((source, source_label), (target, target_label))
        return sum((binary_cross_entropy_with_logits(*term) for term in terms), torch.zeros(())) / 2

    telling_apart, task = method.training_step(network, batch)
    assert (telling_apart.optimizer, task.optimizer) == (DOMAIN, TASK)
    torch.testing.assert_close(telling_apart.loss, domain_cross_entropy(ones, 0 * ones))
    confusing = task.loss - task.logged["task_loss"]
    torch.testing.assert_close(confusing, domain_cross_entropy(0 * ones, ones))
    # The discriminator's update does not reach the features, and the features' gradients point the other way.
    weight = next(network.task.backbone.parameters())
    assert torch.autograd.grad(telling_apart.loss, [weight], allow_unused=True)[0] is None
    helping, hindering = (
        torch.autograd.grad(loss, [weight], retain_graph=True)[0].flatten()
        for loss in (domain_cross_entropy(ones, 0 * ones), confusing)
    )
    assert torch.cosine_similarity(helping, hindering, dim=0) < -0.9


def test_cluster_loss_is_entropy_and_a_change_that_grows_with_the_radius(blueprint: Blueprint, batch: Batch) -> None:
    changes = []
    for radius in (1e-4, 0.05, 0.5):
        method = VirtualAdversarial(radius=radius)
        network = built(method, blueprint)
        with torch.no_grad():  # the same network each time
            for number, parameter in enumerate(network.parameters()):
                parameter.normal_(std=0.3, generator=torch.Generator().manual_seed(number))
        *_, update = method.training_step(network, batch)
        assert batch.target_inputs is not None
        entropy = Categorical(logits=network.task(batch.target_inputs)[0]).entropy().mean()  # type: ignore[no-untyped-call]
        changes.append((update.logged["cluster_loss"] - entropy).item())
    assert changes[0] == pytest.approx(0, abs=1e-4)
    assert changes[0] < changes[1] < changes[2]


def test_refinement_leaves_the_source_alone_and_stays_near_the_teacher(blueprint: Blueprint, batch: Batch) -> None:
    method = VirtualAdversarial(refine_after=1, target_weight=0.0, teacher_weight=2.0, teacher_decay=0.75)
    network = built(method, blueprint)
    list(method.training_step(network, batch))
    assert network.teacher is not None
    assert torch.equal(network.teacher.head.weight, network.task.head.weight)

    with torch.no_grad():
        network.task.head.weight[0].add_(0.1)
    before = network.teacher.head.weight.clone()
    steps = method.training_step(network, batch)
    update: Update = next(steps)
    assert batch.target_inputs is not None
    taught, own = (Categorical(logits=model(batch.target_inputs)[0]) for model in (network.teacher, network.task))
    torch.testing.assert_close(update.loss, 2.0 * kl_divergence(taught, own).mean())
    assert "task_loss" not in update.logged
    assert list(steps) == []
    torch.testing.assert_close(network.teacher.head.weight, before + 0.25 * (network.task.head.weight - before))
    assert all(not parameter.requires_grad for parameter in network.teacher.parameters())


def test_refinement_resumes_exactly(features: ShiftProblem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stopped in the middle of the refinement, of which the counter and the teacher must survive."""
    how = Recipe.from_names("vada", method_options={"refine_after": 5}, training={"epochs": 2, "batch_size": 16})
    whole = fit_model(features, how)
    with monkeypatch.context() as patch:
        stop_training_after(patch, 8)
        with pytest.raises(TrainingInterrupted):
            fit_model(features, how, checkpoint=tmp_path / "c.pt")
    resumed = fit_model(features, how, checkpoint=tmp_path / "c.pt", resume=True)
    assert torch.equal(*(model.predict(features.source.inputs).logits for model in (whole, resumed)))


def test_target_predictions_become_more_certain(features: ShiftProblem) -> None:
    def entropy(**options: Any) -> float:
        how = Recipe.from_names("vada", method_options=options, training={"epochs": 15, "batch_size": 32})
        model: FittedModel = fit_model(features, how)
        assert features.target is not None
        return float(Categorical(logits=model.predict(features.target.inputs).logits).entropy().mean())  # type: ignore[no-untyped-call]

    assert entropy(target_weight=1.0) < entropy(target_weight=0.0)


def test_perturbed_inputs_leave_no_trace_in_batch_norm(batch: Batch) -> None:
    """The statistics after a step are those of one look at the source and one at the target."""
    statistics = InputStatistics(torch.zeros(4), torch.ones(4))
    torch.manual_seed(0)
    blueprint = Blueprint(lambda: build_backbone(nn.BatchNorm1d(4), (4,), statistics), 3, has_target=True)
    method = VirtualAdversarial()
    network = method.build(blueprint)
    expected = nn.BatchNorm1d(4)
    assert batch.target_inputs is not None
    for inputs in (batch.source_inputs, batch.target_inputs):
        expected(inputs)
    list(method.training_step(network, batch))
    body = network.task.backbone.body
    assert isinstance(body, nn.BatchNorm1d)
    assert body.momentum == expected.momentum
    torch.testing.assert_close(body.running_mean, expected.running_mean)
    torch.testing.assert_close(body.running_var, expected.running_var)
