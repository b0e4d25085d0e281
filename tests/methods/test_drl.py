import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch.nn.functional import cross_entropy

from shiftcal.data.batches import Batch, ShiftProblem
from shiftcal.functional.density_ratio import bounded_domain_logit
from shiftcal.functional.dual import target_potential, task_surrogate
from shiftcal.methods.base import RATIO, TASK
from shiftcal.methods.drl import DistributionallyRobust
from shiftcal.methods.drssl import DistributionallyRobustSemiSupervised
from shiftcal.methods.networks.classifiers import Blueprint, DomainOutputs
from shiftcal.training.fit import fit_model
from shiftcal.training.fitted_model import FittedModel
from shiftcal.training.recipe import Recipe

pytestmark = pytest.mark.usefixtures("quick_estimate")


TRAINING = {"epochs": 20, "batch_size": 32}


def fitted(problem: ShiftProblem, **options: Any) -> FittedModel:
    return fit_model(problem, Recipe.from_names("drl", method_options=options, training=TRAINING))


def median_ratio(model: FittedModel, problem: ShiftProblem) -> tuple[float, float]:
    assert problem.target is not None
    source = model.predict(problem.source.inputs).density_ratio.median()
    target = model.predict(problem.target.inputs).density_ratio.median()
    return float(source), float(target)


def test_ratio_tells_the_domains_apart_and_stays_within_its_bound(features: ShiftProblem) -> None:
    source, target = median_ratio(fitted(features, ratio_bound=5.0, dual_weight=0.0), features)
    assert 1 < source <= 5
    assert 1 / 5 <= target < 1


def test_where_clusters_agree_with_the_classifier_the_ratio_of_the_target_takes_no_confidence(
    features: ShiftProblem,
) -> None:
    source, target = median_ratio(fitted(features), features)
    assert 1 < source <= 100
    assert 0.9 < target < 1.1


@pytest.mark.parametrize(("use", "dual_weight"), [("capped", 0.0), ("capped", 0.1), ("capped", 3.0), ("paper", 0.1)])
def test_ratio_is_near_one_where_there_is_no_shift(features: ShiftProblem, use: str, dual_weight: float) -> None:
    """Without the mean-one constraint the published dual term drove the ratio to its lower bound on both domains."""
    same = replace(features, target=features.source.without_labels())
    for ratio in median_ratio(fitted(same, ratio_use=use, dual_weight=dual_weight, ratio_bound=10.0), same):
        assert 0.5 < ratio < 2


@pytest.mark.parametrize("kind", ["shared", "confidence", "separate"])
def test_batch_norm_does_not_pass_for_a_shift(images: ShiftProblem, kind: str) -> None:
    """Features of the source by batch statistics and of the target by running ones looked like two domains."""
    same = replace(images, target=images.source.without_labels())
    how = Recipe.from_names(
        "drl", backbone="wrn-10-1", method_options={"ratio_network": kind}, training={"epochs": 10, "batch_size": 16}
    )
    model = fit_model(same, how)
    for ratio in median_ratio(model, same):
        assert 0.7 < ratio < 1.4
    assert model.history[-1]["domain_loss"] > 0.55


def test_strength_zero_trains_the_network_of_source_only_to_the_last_bit(features: ShiftProblem) -> None:
    """The surrogate's rounding grew to predictions that differed on digits."""
    robust = fitted(features, ratio_strength=0.0).network.get_submodule("task")
    plain = fit_model(features, Recipe.from_names("source-only", training=TRAINING)).network
    for name, weights in plain.state_dict().items():
        assert torch.equal(robust.state_dict()[name], weights), name


def test_target_predictions_are_less_sure_than_without_the_ratio(features: ShiftProblem) -> None:
    assert features.target is not None
    confidence = []
    for strength in (0.0, 1.0):
        logits = fitted(features, ratio_strength=strength).predict(features.target.inputs).logits
        confidence.append(float(torch.softmax(logits, dim=-1).max(dim=-1).values.mean()))
    assert confidence[1] < confidence[0]


def test_the_ratio_is_low_on_rows_whose_clusters_contradict_the_classifier(blueprint: Blueprint) -> None:
    """Other labels than the classifier's, by clusters that are relied on, lower R; the classifier's own do not."""
    method: DistributionallyRobust[Any] = DistributionallyRobust()
    network = method.build(blueprint)
    network.label_estimate.reliability.fill_(1.0)
    logits, slopes = torch.randn(16, 3), []
    for labels in (logits.argmax(dim=-1), logits.argmin(dim=-1)):
        log_ratio = torch.full((16,), -1.0, requires_grad=True)
        loss = method._dual_term(network, method.applied_ratio(log_ratio), logits, torch.eye(3)[labels])
        slopes.append(torch.autograd.grad(loss, log_ratio)[0])
    assert bool((slopes[0] < 0).all())  # descending the loss raises R
    assert bool((slopes[1] > 0).all())


def test_a_ratio_that_sees_no_clusters_has_no_dual_term_but_the_published_one(
    blueprint: Blueprint, batch: Batch
) -> None:
    """By what the task says itself a capped R could only rise."""
    losses = {}
    for use in ("capped", "paper"):
        for weight in (0.0, 3.0):
            method: DistributionallyRobust[Any] = DistributionallyRobust(
                ratio_network="shared", ratio_use=use, dual_weight=weight
            )
            torch.manual_seed(0)
            (update,) = method.training_step(method.build(blueprint), batch)
            losses[use, weight] = update.beside[RATIO].item()
    assert losses["capped", 3.0] == losses["capped", 0.0]
    assert losses["paper", 3.0] != losses["paper", 0.0]


def test_the_published_dual_term_knows_no_labels(blueprint: Blueprint) -> None:
    method: DistributionallyRobust[Any] = DistributionallyRobust(ratio_use="paper")
    logits, ratio = torch.randn(16, 3), torch.linspace(0.5, 2, 16)
    found = method._dual_term(method.build(blueprint), ratio, logits, torch.eye(3)[logits.argmax(dim=-1)])
    torch.testing.assert_close(found, target_potential(logits, ratio / ratio.mean()))


@pytest.mark.parametrize("use", ["paper", "capped"])
def test_the_task_loss_is_the_surrogate_of_the_dual_with_the_ratio_at_its_strength(
    blueprint: Blueprint, batch: Batch, use: Any
) -> None:
    method: DistributionallyRobust[Any] = DistributionallyRobust(
        ratio_strength=2.0, ratio_use=use, class_regularization=0.1
    )
    network = method.build(blueprint)
    torch.nn.init.ones_(network.ratio["head"].layers[-1].weight)
    outputs = DomainOutputs(*network.task(batch.source_inputs))
    log_ratio = network.log_ratio(network.seen_by_ratio(batch.source_inputs, outputs)).detach()
    ratio = (2 * log_ratio).exp()
    if use == "capped":
        ratio = ratio.clamp_max(1).mean().repeat(16)
    expected = task_surrogate(outputs.logits, batch.source_labels, ratio, class_regularization=0.1)
    assert log_ratio.std() > 0.01
    torch.testing.assert_close(method.task_loss(batch, outputs.logits, log_ratio), expected)


def with_constant_log_ratio(method: DistributionallyRobust[Any], blueprint: Blueprint, log_ratio: float) -> Any:
    network = method.build(blueprint).eval()
    torch.nn.init.constant_(network.ratio["head"].layers[-1].bias, log_ratio)
    return network


def test_rows_more_like_the_source_are_trained_on_and_predicted_as_by_plain_training(
    blueprint: Blueprint, batch: Batch
) -> None:
    method: DistributionallyRobust[Any] = DistributionallyRobust(ratio_bound=10.0)
    network = with_constant_log_ratio(method, blueprint, 1.0)
    outputs = method.predict(network, batch.source_inputs)
    source = DomainOutputs(*network.task(batch.source_inputs))
    logits = source.logits
    torch.testing.assert_close(outputs.logits, logits - logits.mean(dim=-1, keepdim=True))
    assert bool((outputs.density_ratio > 2).all())  # as estimated, though it counts as 1
    log_ratio = network.log_ratio(network.seen_by_ratio(batch.source_inputs, source)).detach()
    loss = method.task_loss(batch, logits, log_ratio)
    weights = network.task.head.weight
    (found,) = torch.autograd.grad(loss, weights, retain_graph=True)
    (plain,) = torch.autograd.grad(cross_entropy(logits, batch.source_labels), weights)
    torch.testing.assert_close(found, plain)


def test_rows_unlike_the_source_lose_confidence_by_the_ratio_to_the_power_of_its_strength(
    blueprint: Blueprint, batch: Batch
) -> None:
    method: DistributionallyRobust[Any] = DistributionallyRobust(ratio_bound=10.0, ratio_strength=0.5)
    network = with_constant_log_ratio(method, blueprint, -1.0)
    log_ratio = math.log(10) * math.tanh(-1 / math.log(10))
    outputs = method.predict(network, batch.source_inputs)
    expected = math.exp(log_ratio / 2) * network.task(batch.source_inputs)[0]
    torch.testing.assert_close(outputs.logits.log_softmax(dim=-1), expected.log_softmax(dim=-1))
    torch.testing.assert_close(outputs.density_ratio, torch.full((16,), math.exp(log_ratio)))


@pytest.mark.parametrize(
    "method",
    [
        DistributionallyRobust(),
        DistributionallyRobust(ratio_network="shared"),
        DistributionallyRobust(ratio_network="separate"),
        DistributionallyRobustSemiSupervised(ratio_strength=0.5),
    ],
    ids=["confidence", "shared", "separate", "semi-supervised"],
)
def test_each_loss_reaches_its_own_parameters_only(
    method: DistributionallyRobust[Any], blueprint: Blueprint, batch: Batch
) -> None:
    network = method.build(blueprint)
    (update,) = method.training_step(network, batch)
    losses = {update.optimizer: update.loss, **update.beside}
    assert set(losses) == {TASK, RATIO}
    for name, loss in losses.items():
        network.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        assert {key.split(".")[0] for key, p in network.named_parameters() if p.grad is not None} == {name}


def test_the_ratio_has_an_optimiser_of_its_own(blueprint: Blueprint) -> None:
    """Its step size is for AdamW: by the SGD of a task network it would hardly learn."""
    method: DistributionallyRobust[Any]
    for method, kind in (
        (DistributionallyRobust(optimizer="sgd"), "adamw"),
        (DistributionallyRobustSemiSupervised(ratio_strength=0.5), "adamw"),
        (DistributionallyRobust(ratio_optimizer="sgd"), "sgd"),
    ):
        network: Any = method.build(blueprint)
        assert method.optimizers(network)[RATIO].kind == kind


def test_separate_ratio_network_shares_nothing_with_the_task(blueprint: Blueprint) -> None:
    separate = DistributionallyRobust(ratio_network="separate").build(blueprint)
    shared = DistributionallyRobust(ratio_network="shared").build(blueprint)
    assert separate.ratio is not None
    assert shared.ratio is not None
    ratio = set(separate.ratio.parameters())
    assert set(separate.task.parameters()).isdisjoint(ratio)
    assert len(ratio) > len(set(shared.ratio.parameters()))


def test_a_ratio_that_sees_confidence_falls_with_the_largest_probability_whatever_its_class(
    blueprint: Blueprint, batch: Batch
) -> None:
    network: Any = DistributionallyRobust(ratio_bound=10.0).build(blueprint)
    first, _, last = network.ratio["head"].layers
    torch.nn.init.zeros_(first.weight)
    torch.nn.init.zeros_(first.bias)
    first.weight.data[0, network.task.backbone.feature_dim] = 1.0
    last.weight.data[0, 0] = 1.0
    outputs = DomainOutputs(*network.task(batch.source_inputs))
    largest = torch.softmax(outputs.logits, dim=-1).amax(dim=-1)
    expected = bounded_domain_logit(torch.tanh(largest), 10.0)
    for order in ([0, 1, 2], [2, 0, 1]):
        seen = network.seen_by_ratio(batch.source_inputs, outputs._replace(logits=outputs.logits[:, order]))
        torch.testing.assert_close(network.log_ratio(seen), expected)
