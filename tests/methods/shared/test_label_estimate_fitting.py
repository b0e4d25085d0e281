from typing import Any

import numpy as np
import pytest
import torch

from shiftcal.data.batches import ShiftProblem
from shiftcal.data.domains import LabelledDomain, UnlabelledDomain
from shiftcal.data.inputs import ArrayInputs
from shiftcal.methods.base import TrainingView
from shiftcal.methods.drl import DistributionallyRobust
from shiftcal.methods.networks.classifiers import Blueprint
from shiftcal.methods.shared.label_estimate_fitting import fitted_label_estimate
from shiftcal.target.evidence import held_out_temperature

CENTRES = 3 * torch.eye(3, 4)


def clustered(*, has_clusters: bool) -> ShiftProblem:
    """Three classes around their centres, or nowhere; those of the target have moved a little."""
    torch.manual_seed(0)
    labels = torch.arange(90) % 3
    source, target = 0.3 * torch.randn(2, 90, 4) + (CENTRES[labels] if has_clusters else 0)
    classes = ("a", "b", "c")
    return ShiftProblem(
        LabelledDomain("source", ArrayInputs(source), labels.numpy().astype(np.int64), classes),
        UnlabelledDomain("target", ArrayInputs(target + 0.2)),
    )


@pytest.mark.parametrize(
    ("epoch", "due"), [(0, False), (1, True), (2, False), (3, False), (4, True), (9, False), (10, True)]
)
def test_it_is_fitted_ever_more_rarely_and_at_the_end(
    view_of: Any, blueprint: Blueprint, epoch: int, due: bool
) -> None:
    method: DistributionallyRobust[Any] = DistributionallyRobust()
    view: TrainingView = view_of(method, method.build(blueprint), clustered(has_clusters=True), epoch)
    assert view.clusters_are_due == due
    assert bool(method.fit_buffers(method.build(blueprint), view)) == due


@pytest.mark.parametrize("has_clusters", [True, False])
def test_clusters_are_relied_on_where_those_of_the_source_hold_the_classes(
    view_of: Any, blueprint: Blueprint, has_clusters: bool
) -> None:
    method: DistributionallyRobust[Any] = DistributionallyRobust()
    network, problem = method.build(blueprint), clustered(has_clusters=has_clusters)
    network.task.backbone = torch.nn.Identity()  # logits are distances to the classes
    network.task.backbone.takes_images = False
    network.task.head = torch.nn.Linear(4, 3, bias=False)
    network.task.head.weight.data.copy_(CENTRES)
    found = fitted_label_estimate(network, view_of(method, network, problem, 1))
    assert (found["reliability"] > 0.95) == has_clusters
    assert (found["reliability"] < 0.3) == (not has_clusters)
    logits = problem.source.inputs.fetch(np.arange(90)).double() @ CENTRES.double().T
    assert float(found["temperature"]) == pytest.approx(
        held_out_temperature(logits, torch.from_numpy(problem.source.labels)), rel=1e-4
    )
    without = view_of(method, network, problem, 1, held_out=False)
    assert float(fitted_label_estimate(network, without)["temperature"]) == 1
