from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from shiftcal.data.batches import ShiftProblem
from shiftcal.data.inputs import Inputs
from shiftcal.functional.clustering import cluster_log_posteriors
from shiftcal.functional.self_training import select_class_balanced
from shiftcal.methods.base import EpochOutlook, Evidence, Outputs
from shiftcal.methods.drl import RobustNetwork
from shiftcal.methods.drst import DistributionallyRobustSelfTraining
from shiftcal.models.networks import Blueprint

TRUST = 0.4


def rows_of(inputs: Inputs) -> Tensor:
    return inputs.fetch(np.arange(len(inputs), dtype=np.int64))


class Trusting(DistributionallyRobustSelfTraining):
    """Finds what it would find, but believes the clusters to a known degree."""

    def conclude(self, network: RobustNetwork, evidence: Evidence) -> dict[str, float]:
        return super().conclude(network, evidence) | {"trust": TRUST}


def outlook(method: Any, network: RobustNetwork, problem: ShiftProblem, epoch: int) -> EpochOutlook:
    assert problem.target is not None
    target = rows_of(problem.target.inputs)

    @torch.no_grad()
    def observe(function: Callable[[Tensor], tuple[Tensor, ...]], inputs: Inputs) -> tuple[Tensor, ...]:
        return function(rows_of(inputs))

    @torch.no_grad()
    def predict() -> Outputs:
        outputs: Outputs = method.predict(network, target)
        return outputs

    evidence = Evidence(problem.source, None, problem.target, observe)
    return EpochOutlook(epoch, 10, predict, predict, torch.from_numpy(problem.source.labels), evidence, network)


@pytest.mark.parametrize("cluster_labels", [True, False])
def test_labels_come_from_the_robust_prediction_and_the_clusters(
    cluster_labels: bool, blueprint: Blueprint, features: ShiftProblem
) -> None:
    method = Trusting(cluster_labels=cluster_labels)
    network = method.build(blueprint).eval()
    assert method.choose_pseudo_labels(network, outlook(method, network, features, 2)) is None
    chosen = method.choose_pseudo_labels(network, outlook(method, network, features, 3))
    assert chosen is not None
    assert features.target is not None
    target = rows_of(features.target.inputs)
    with torch.no_grad():
        scores = torch.softmax(method.predict(network, target).logits.double(), dim=-1)
        if cluster_labels:
            representation = network.task.backbone.representation(target, target)
            scores = scores * (TRUST * cluster_log_posteriors(representation, network.clusters).double()).exp()
    rows, labels = select_class_balanced(scores / scores.sum(dim=-1, keepdim=True), method.first_portion)
    np.testing.assert_array_equal(chosen.rows, rows.numpy())
    np.testing.assert_array_equal(chosen.labels, labels.numpy())


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


def test_a_taught_classifier_remembers_what_was_expected_of_it_before(
    blueprint: Blueprint, features: ShiftProblem
) -> None:
    method = DistributionallyRobustSelfTraining()
    network = method.build(blueprint).eval()
    method.choose_pseudo_labels(network, outlook(method, network, features, 3))
    before = method.find_strength(network, outlook(method, network, features, 3).evidence)["estimated_accuracy"]
    assert float(network.get_buffer("untaught_accuracy")) == pytest.approx(before)
    with torch.no_grad():
        network.task.head.weight.mul_(3)
    view = outlook(method, network, features, 4)
    now = method.find_strength(network, view.evidence)["estimated_accuracy"]
    assert method.conclude(network, view.evidence)["estimated_accuracy"] == pytest.approx((before + now) / 2)
    method.choose_pseudo_labels(network, view)
    assert float(network.get_buffer("untaught_accuracy")) == pytest.approx(before)
