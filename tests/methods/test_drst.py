from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from shiftcal.data.batches import Batch, ShiftProblem
from shiftcal.data.domains import UnlabelledDomain
from shiftcal.data.inputs import ArrayInputs, Inputs
from shiftcal.data.views import ViewMaker
from shiftcal.functional.self_training import select_class_balanced
from shiftcal.methods.base import EpochOutlook, Evidence, Outputs
from shiftcal.methods.drl import DistributionallyRobust, RobustNetwork
from shiftcal.methods.drssl import DistributionallyRobustSemiSupervised
from shiftcal.methods.drst import DistributionallyRobustSelfTraining
from shiftcal.methods.networks.backbones import InputStatistics, build_backbone
from shiftcal.methods.networks.classifiers import Blueprint
from shiftcal.methods.shared.robust_labelling import RobustLabelling
from shiftcal.target.caution import VOTE
from shiftcal.target.clusters import cluster_log_posteriors
from shiftcal.training.fit import fit_model
from shiftcal.training.recipe import Recipe

TRUST, SEPARATION = 0.4, 0.15


def rows_of(inputs: Inputs) -> Tensor:
    return inputs.fetch(np.arange(len(inputs), dtype=np.int64))


class Trusting(DistributionallyRobustSelfTraining):
    """Finds what it would find, but believes the clusters to a known degree, and sees a known degree of shift."""

    def find_strength(self, network: RobustNetwork, evidence: Evidence) -> dict[str, float]:
        findings = super().find_strength(network, evidence)
        network.vote.fill_(VOTE * TRUST)
        return {**findings, "separation": SEPARATION}


def outlook(
    method: Any, network: RobustNetwork, problem: ShiftProblem, epoch: int, *, held_out: bool = True
) -> EpochOutlook:
    assert problem.target is not None
    target = rows_of(problem.target.inputs)

    @torch.no_grad()
    def observe(function: Callable[[Tensor], tuple[Tensor, ...]], inputs: Inputs) -> tuple[Tensor, ...]:
        return function(rows_of(inputs))

    @torch.no_grad()
    def predict() -> Outputs:
        outputs: Outputs = method.predict(network, target)
        return outputs

    evidence = Evidence(problem.source, problem.source if held_out else None, problem.target, observe)
    return EpochOutlook(epoch, 10, predict, predict, torch.from_numpy(problem.source.labels), evidence, network)


@pytest.mark.parametrize("align_classes", [True, False])
@pytest.mark.parametrize("cluster_labels", [True, False])
def test_labels_come_from_the_robust_prediction_the_clusters_and_the_frequency_of_classes(
    cluster_labels: bool, align_classes: bool, blueprint: Blueprint, features: ShiftProblem
) -> None:
    method = Trusting(cluster_labels=cluster_labels, align_classes=align_classes, warmup_share=0.3)
    network = method.build(blueprint).eval()
    assert method.choose_pseudo_labels(network, outlook(method, network, features, 2)) is None
    chosen = method.choose_pseudo_labels(network, outlook(method, network, features, 3))
    assert chosen is not None
    assert features.target is not None
    target = rows_of(features.target.inputs)
    with torch.no_grad():
        robust = DistributionallyRobust.predict(method, network, target)
        scores = torch.softmax(robust.logits.double(), dim=-1)
        if cluster_labels:
            representation = network.task.backbone.representation(target, target)
            scores = scores * (TRUST * cluster_log_posteriors(representation, network.clusters).double()).exp()
            scores = scores / scores.sum(dim=-1, keepdim=True)
    if align_classes:
        wanted = torch.from_numpy(features.source.labels).bincount() / len(features.source.labels)
        # A separation of 0.3 is a full shift.
        scores = scores * (wanted / scores.mean(dim=0)) ** (SEPARATION / 0.3)
    rows, labels = select_class_balanced(scores / scores.sum(dim=-1, keepdim=True), method.first_portion)
    np.testing.assert_array_equal(chosen.rows, rows.numpy())
    np.testing.assert_array_equal(chosen.labels, labels.numpy())


@pytest.mark.parametrize(
    "method_class", [DistributionallyRobustSelfTraining, DistributionallyRobustSemiSupervised], ids=["drst", "drssl"]
)
def test_a_class_that_takes_the_rows_of_others_has_its_part_of_the_labels_alone(
    method_class: type[RobustLabelling], features: ShiftProblem
) -> None:
    """The target is moved towards a class, and so most of it is taken for that."""
    assert features.target is not None
    moved = ArrayInputs(rows_of(features.target.inputs) + torch.tensor([3.0, 0, 0, 0]))
    problem = ShiftProblem(features.source, UnlabelledDomain("target", moved))
    network = fit_model(problem, Recipe.from_names("drl", training={"epochs": 10})).network
    assert isinstance(network, RobustNetwork)
    options: dict[str, Any] = {"last_portion": 1.0, "cluster_labels": False}
    if method_class is DistributionallyRobustSemiSupervised:
        options |= {"least_confidence": 0.0, "ratio_network": "shared"}

    def largest_share(*, align_classes: bool) -> float:
        method = method_class(align_classes=align_classes, **options)
        chosen = method.choose_pseudo_labels(network, outlook(method, network, problem, 9))
        assert chosen is not None
        return float(np.bincount(chosen.labels).max() / len(chosen.labels))

    assert largest_share(align_classes=True) < largest_share(align_classes=False) - 0.1


def test_drssl_accepts_the_surest_of_each_class_by_the_aligned_prediction(
    blueprint: Blueprint, features: ShiftProblem
) -> None:
    method = DistributionallyRobustSemiSupervised(
        least_confidence=0.34, first_portion=0.5, last_portion=0.5, warmup_share=0.0, cluster_labels=False
    )
    network = method.build(blueprint).eval()
    network.untaught.copy_(torch.tensor([0.5, 1.0]))
    view = outlook(method, network, features, 0)
    chosen = method.choose_pseudo_labels(network, view)
    assert chosen is not None
    probabilities = torch.softmax(view.predict_target().logits.double(), dim=-1)
    wanted = np.bincount(features.source.labels) / len(features.source.labels)
    aligned = probabilities.numpy() * wanted / probabilities.numpy().mean(axis=0)
    aligned /= aligned.sum(axis=1, keepdims=True)
    labels, confidence = aligned.argmax(axis=1), aligned.max(axis=1)
    assert (labels != probabilities.argmax(dim=-1).numpy()).any()
    for label in range(3):
        surest = [row for row in np.argsort(-confidence) if labels[row] == label and confidence[row] >= 0.34]
        np.testing.assert_array_equal(chosen.rows[chosen.labels == label], sorted(surest[: round(0.5 * 40)]))


def test_the_gain_of_drssl_and_alignment_need_held_out_rows(features: ShiftProblem) -> None:
    trained = fit_model(features, Recipe.from_names("drl", training={"epochs": 5})).network
    assert isinstance(trained, RobustNetwork)
    method = DistributionallyRobustSemiSupervised(ratio_network="shared")
    for held_out in (True, False):
        view = outlook(method, trained, features, 9, held_out=held_out)
        method.choose_pseudo_labels(trained, view)
        assert bool(trained.class_balance.any()) is held_out
        gain = method.find_strength(trained, view.evidence)["gain"]
        assert trained.gain.item() == pytest.approx(gain)
        assert (gain != 0) is held_out


def test_clusters_of_features_that_the_network_learns_label_nothing_unless_asked(blueprint: Blueprint) -> None:
    network = DistributionallyRobustSelfTraining().build(blueprint)
    for takes_images in (False, True):
        network.task.backbone.takes_images = takes_images
        assert DistributionallyRobustSelfTraining().by_clusters(network) is not takes_images
        assert DistributionallyRobustSelfTraining(cluster_labels=True).by_clusters(network)
        assert not DistributionallyRobustSelfTraining(cluster_labels=False).by_clusters(network)
        assert not DistributionallyRobustSelfTraining(cluster_labels=True, ratio_strength=0.5).by_clusters(network)


@pytest.mark.parametrize(("num_channels", "strong"), [(1, True), (3, True), (2, False)])
def test_selected_images_are_shown_in_strong_views_and_the_source_as_it_is(num_channels: int, strong: bool) -> None:
    shape = (num_channels, 16, 16)
    statistics = InputStatistics(torch.zeros(num_channels), torch.ones(num_channels))
    blueprint = Blueprint(lambda: build_backbone("small-cnn", shape, statistics), 3, has_target=True)
    inputs, target = torch.rand(6, *shape), torch.rand(6, *shape)
    labels, is_pseudo = torch.tensor([0, 1, 2, 0, 1, 2]), torch.tensor([False, True] * 3)
    batch = Batch(inputs, labels, torch.eye(3)[labels], is_pseudo, target, torch.arange(6), ViewMaker(0, 0), 0.5)
    views = ViewMaker(0, 0)
    changed = views.strong(inputs) if strong else views.weak(inputs)
    expected = torch.where(is_pseudo[:, None, None, None], changed, inputs)
    method = DistributionallyRobustSelfTraining()
    network = method.build(blueprint)
    *_, update = method.training_step(network, batch)
    *_, same = DistributionallyRobust.training_step(method, network, batch._replace(source_inputs=expected))
    *_, plain = DistributionallyRobustSelfTraining(strong_views=False).training_step(network, batch)
    assert update.loss.item() == same.loss.item()
    assert update.loss.item() != plain.loss.item()
    fixed = [DistributionallyRobustSelfTraining(ratio_strength=1, strong_views=views) for views in (True, False)]
    with_views, without = (list(method.training_step(network, batch))[-1].loss.item() for method in fixed)
    assert with_views == without


def test_with_a_fixed_strength_there_are_no_clusters(blueprint: Blueprint, features: ShiftProblem) -> None:
    method = DistributionallyRobustSelfTraining(ratio_strength=1.0)
    network = method.build(blueprint).eval()
    view = outlook(method, network, features, 9)
    chosen = method.choose_pseudo_labels(network, view)
    assert chosen is not None
    probabilities = torch.softmax(view.predict_target().logits.double(), dim=-1)
    rows, _ = select_class_balanced(probabilities, method.last_portion)
    np.testing.assert_array_equal(chosen.rows, rows.numpy())
    assert not network.centroids.any()


@pytest.mark.parametrize("cluster_labels", [True, False])
def test_a_taught_classifier_remembers_what_was_expected_of_it_before(
    cluster_labels: bool, blueprint: Blueprint, features: ShiftProblem
) -> None:
    method = DistributionallyRobustSelfTraining(cluster_labels=cluster_labels)
    network = method.build(blueprint).eval()
    method.choose_pseudo_labels(network, outlook(method, network, features, 3))
    before = method.find_strength(network, outlook(method, network, features, 3).evidence)["estimated_accuracy"]
    memory = network.untaught.clone()
    assert memory[0].item() == pytest.approx(before)
    with torch.no_grad():
        network.task.head.weight.mul_(3)
    view = outlook(method, network, features, 4)
    network.untaught[0] = 0
    now = 2 * method.find_strength(network, view.evidence)["estimated_accuracy"]
    network.untaught.copy_(memory)
    assert method.conclude(network, view.evidence)["estimated_accuracy"] == pytest.approx((before + now) / 2)
    method.choose_pseudo_labels(network, view)
    assert torch.equal(network.untaught, memory)


def test_soft_labels_are_what_the_labels_are_the_largest_of(blueprint: Blueprint, features: ShiftProblem) -> None:
    hard, soft = (
        method.choose_pseudo_labels(network, outlook(method, network, features, 5))
        for method in (DistributionallyRobustSelfTraining(), DistributionallyRobustSelfTraining(soft_labels=True))
        for network in [seeded(method, blueprint)]
    )
    assert hard is not None
    assert soft is not None
    assert hard.soft_labels is None
    assert soft.soft_labels is not None
    np.testing.assert_array_equal(soft.rows, hard.rows)
    np.testing.assert_allclose(soft.soft_labels.sum(axis=1), 1, rtol=1e-5)
    assert (
        soft.soft_labels.argmax(axis=1) == soft.labels
    ).mean() > 0.9  # but for rows near another class's threshold


def seeded(method: DistributionallyRobustSelfTraining, blueprint: Blueprint) -> RobustNetwork:
    torch.manual_seed(0)
    return method.build(blueprint).eval()


def test_source_rows_count_by_their_likeness_to_the_target(batch: Batch) -> None:
    """Cross-entropy with weights R^-w of mean one; pseudo-labelled rows are rows of the target and weigh 1."""
    method = DistributionallyRobustSelfTraining(ratio_weight=0.5, soft_labels=True)
    torch.manual_seed(0)
    logits, log_ratio = torch.randn(16, 3), torch.randn(16)
    is_pseudo = torch.arange(16) >= 12
    soft_labels = torch.softmax(torch.randn(16, 3), dim=-1)
    loss = method.task_loss(logits, batch._replace(is_pseudo=is_pseudo, soft_labels=soft_labels), log_ratio)
    weights = np.where(is_pseudo.numpy(), 1.0, np.exp(-0.5 * log_ratio.numpy()))
    losses = -(soft_labels * logits.log_softmax(dim=-1)).sum(dim=-1).numpy()
    assert loss.item() == pytest.approx((losses * weights).sum() / weights.sum(), rel=1e-5)


def test_predictions_are_made_together_with_the_clusters(blueprint: Blueprint, features: ShiftProblem) -> None:
    """(f (q^trust b)^t)^(s^t), with s such that the mean confidence on the target is the accuracy to be expected."""
    method = DistributionallyRobustSelfTraining()
    network = seeded(method, blueprint)
    assert features.target is not None
    # A classifier that has learned a little, so that classes form clusters of its predictions.
    trained = fit_model(features, Recipe.from_names("drst", training={"epochs": 3})).network
    network.load_state_dict(trained.state_dict())
    findings = method.find_strength(network, outlook(method, network, features, 5).evidence)
    assert findings["trust"] > 0
    assert features.target is not None
    target = rows_of(features.target.inputs)
    with torch.no_grad():
        robust = DistributionallyRobust.predict(method, network, target)
        shares = cluster_log_posteriors(network.task.backbone.representation(target, target), network.clusters)
        predicted = torch.softmax(method.predict(network, target).logits, dim=-1)
    likeness = ((1 - robust.density_ratio) / (1 + robust.density_ratio)).clamp_min(0).unsqueeze(-1)
    assert network.class_balance.any()
    scores = robust.logits.log_softmax(dim=-1) + likeness * (findings["trust"] * shares + network.class_balance)
    expected = torch.softmax(network.sharpness**likeness * scores, dim=-1)
    torch.testing.assert_close(predicted, expected, rtol=1e-4, atol=1e-5)
    # Rows more like the source keep their confidence, so the mean may end a little above.
    assert predicted.amax(dim=-1).mean().item() == pytest.approx(findings["estimated_accuracy"], abs=0.02)


@pytest.mark.parametrize(("strength", "num_source"), [("auto", 12), (1.0, 16)])
def test_the_ratio_is_that_of_the_source_itself(
    strength: Any, num_source: int, batch: Batch, blueprint: Blueprint
) -> None:
    """Labelled rows of the target are no part of the source for it; in the paper's form they are."""
    method = DistributionallyRobustSelfTraining(ratio_strength=strength)
    network = seeded(method, blueprint)
    assert network.ratio is not None
    for weights in network.ratio.parameters():
        torch.nn.init.normal_(weights, generator=torch.Generator().manual_seed(0))
    update = next(iter(method.training_step(network, batch._replace(is_pseudo=torch.arange(16) >= 12))))
    assert batch.target_inputs is not None
    with torch.no_grad():
        source, target = (
            method.predict(network, x).density_ratio for x in (batch.source_inputs, batch.target_inputs)
        )
    right = source[:num_source] / (1 + source[:num_source]), 1 / (1 + target)
    expected = -(right[0].log().mean() + right[1].log().mean()) / 2
    torch.testing.assert_close(update.logged["domain_loss"], expected)
