import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.special import log_softmax, softmax
from torch import nn

from shiftcal.data.batches import Batch
from shiftcal.data.views import ViewMaker
from shiftcal.methods.adamatch import NUM_REMEMBERED, AdaMatch, AligningClassifier
from shiftcal.methods.networks.backbones import InputStatistics, build_backbone
from shiftcal.methods.networks.classifiers import Blueprint


def views_of(batch: Batch) -> tuple[torch.Tensor, ...]:
    """Source weak and strong, target weak and strong; weak views of features are the features."""
    assert batch.target_inputs is not None
    again, missing = ViewMaker(0, 0), torch.zeros(1, 4)
    source_strong = again.strong(batch.source_inputs, missing=missing)
    target_strong = again.strong(batch.target_inputs, missing=missing)
    return batch.source_inputs, source_strong, batch.target_inputs, target_strong


def cross_entropies(logits: NDArray[np.float64], labels: NDArray[np.int64]) -> NDArray[np.float64]:
    return -np.asarray(log_softmax(logits, axis=1))[np.arange(len(labels)), labels]


@pytest.mark.parametrize(("progress", "ramp"), [(0.0, 0.0), (0.25, 0.5), (0.5, 1.0), (0.9, 1.0)])
def test_the_loss_by_hand(progress: float, ramp: float, blueprint: Blueprint, batch: Batch) -> None:
    method = AdaMatch(threshold=1.0, unlabelled_weight=2.0)
    network = method.build(blueprint)
    (update,) = method.training_step(network, batch._replace(progress=progress))

    with torch.no_grad():
        source_weak, source_strong, target_weak, target_strong = (
            network(inputs)[0].double().numpy() for inputs in views_of(batch)
        )
    labels = batch.source_labels.numpy()
    task_loss = (cross_entropies(source_weak, labels).mean() + cross_entropies(source_strong, labels).mean()) / 2
    sure, found = softmax(source_weak, axis=1), softmax(target_weak, axis=1)
    wanted_mean = 0.999 / 3 + 0.001 * sure.mean(axis=0)
    found_mean = (127 / 3 + found.mean(axis=0)) / 128
    aligned = found * wanted_mean / found_mean
    aligned /= aligned.sum(axis=1, keepdims=True)
    kept = aligned.max(axis=1) >= 1.0 * sure.max(axis=1).mean()
    assert 0 < kept.sum() < 16
    agreement = (cross_entropies(target_strong, aligned.argmax(axis=1)) * kept).mean()
    assert update.logged["pseudo_coverage"].item() == pytest.approx(kept.mean())
    assert update.logged["consistency_loss"].item() == pytest.approx(agreement, rel=1e-4)
    assert update.loss.item() == pytest.approx(task_loss + 2 * ramp * agreement, rel=1e-4)


def batch_norm_network(method: AdaMatch) -> tuple[AligningClassifier, nn.BatchNorm1d]:
    torch.manual_seed(0)
    statistics = InputStatistics(torch.zeros(4), torch.ones(4))
    network = method.build(Blueprint(lambda: build_backbone(nn.BatchNorm1d(4), (4,), statistics), 3, has_target=True))
    body = network.backbone.body
    assert isinstance(body, nn.BatchNorm1d)
    return network, body


def test_source_logits_lie_between_those_of_the_joint_pass_and_of_the_source_alone(batch: Batch) -> None:
    method = AdaMatch()
    network, body = batch_norm_network(method)
    views = views_of(batch)
    together, source = torch.cat(views), torch.cat(views[:2])
    joint, alone = (
        network.head(nn.functional.batch_norm(values, None, None, training=True)) for values in (together, source)
    )
    sizes: list[int] = []
    body.register_forward_hook(lambda module, inputs, output: sizes.append(len(inputs[0])))
    interpolated, target_weak, target_strong = method._logits(network, batch)
    assert sizes == [64, 32]
    low, high = torch.minimum(joint[:32], alone), torch.maximum(joint[:32], alone)
    assert ((interpolated >= low - 1e-6) & (interpolated <= high + 1e-6)).all()
    share = (interpolated - joint[:32]) / (alone - joint[:32])
    assert 0.3 < share.mean() < 0.7
    assert share.std() > 0.2
    torch.testing.assert_close(torch.cat([target_weak, target_strong]), joint[32:])
    # Batch norm keeps what it saw in the joint pass, and nothing of the other.
    torch.testing.assert_close(body.running_mean, 0.1 * together.mean(dim=0))


def test_without_batch_norm_there_is_one_pass(blueprint: Blueprint, batch: Batch) -> None:
    method = AdaMatch()
    network = method.build(blueprint)
    passes: list[int] = []
    network.register_forward_hook(lambda module, inputs, output: passes.append(len(inputs[0])))
    list(method.training_step(network, batch))
    assert passes == [64]


def test_the_oldest_target_predictions_are_forgotten(blueprint: Blueprint) -> None:
    network = AdaMatch().build(blueprint)
    uniform = torch.full((5, 3), 1 / 3)
    one_sided = torch.tensor([[0.8, 0.1, 0.1]]).repeat(5, 1)
    network.aligned(uniform, one_sided)
    torch.testing.assert_close(network.target_means[0], one_sided[0])
    for _ in range(NUM_REMEMBERED):
        network.aligned(uniform, uniform)
    torch.testing.assert_close(network.target_means, uniform[0].repeat(NUM_REMEMBERED, 1))


def test_alignment_takes_from_classes_that_are_predicted_too_often(blueprint: Blueprint) -> None:
    network = AdaMatch().build(blueprint)
    uniform = torch.full((6, 3), 1 / 3)
    one_sided = torch.tensor([[0.8, 0.1, 0.1]]).repeat(6, 1)
    for _ in range(NUM_REMEMBERED):
        aligned = network.aligned(uniform, one_sided)
    torch.testing.assert_close(aligned, uniform, atol=1e-4, rtol=1e-4)
