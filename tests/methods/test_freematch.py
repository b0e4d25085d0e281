import numpy as np
import pytest
import torch
from scipy.special import softmax

from shiftcal.data.batches import Batch
from shiftcal.data.views import ViewMaker
from shiftcal.functional.adaptive_thresholds import fairness_loss
from shiftcal.functional.consistency import consistency_loss
from shiftcal.methods.freematch import FreeMatch
from shiftcal.methods.networks.classifiers import Blueprint


def test_moving_means_and_thresholds_by_hand(blueprint: Blueprint, batch: Batch) -> None:
    method = FreeMatch(momentum=0.75, fairness_weight=0.5, unlabelled_weight=2.0)
    network = method.build(blueprint)
    (update,) = method.training_step(network, batch)

    assert batch.target_inputs is not None
    with torch.no_grad():
        probabilities = softmax(network(batch.target_inputs)[0].double().numpy(), axis=1)
    labels = probabilities.argmax(axis=1)
    confidence = 0.75 / 3 + 0.25 * probabilities.max(axis=1).mean()
    class_means = 0.75 / 3 + 0.25 * probabilities.mean(axis=0)
    label_shares = 0.75 / 3 + 0.25 * np.bincount(labels, minlength=3) / 16
    assert network.confidence.item() == pytest.approx(confidence, rel=1e-5)
    assert network.class_means.tolist() == pytest.approx(class_means.tolist(), rel=1e-5)
    assert network.label_shares.tolist() == pytest.approx(label_shares.tolist(), rel=1e-5)

    thresholds = confidence * class_means / class_means.max()
    kept = probabilities.max(axis=1) >= thresholds[labels]
    assert update.logged["pseudo_coverage"].item() == pytest.approx(kept.mean())
    strong, _ = network(ViewMaker(0, 0).strong(batch.target_inputs, missing=torch.zeros(1, 4)))
    agreement, _ = consistency_loss(torch.from_numpy(probabilities), strong, torch.from_numpy(thresholds[labels]))
    fairness = fairness_loss(strong, torch.from_numpy(kept), network.class_means, network.label_shares)
    torch.testing.assert_close(update.logged["fairness_loss"], fairness)
    expected = update.logged["task_loss"] + 2 * agreement + 0.5 * fairness
    torch.testing.assert_close(update.loss, expected)


def test_thresholds_rise_with_confidence(blueprint: Blueprint, batch: Batch) -> None:
    method = FreeMatch(momentum=0.5)
    network = method.build(blueprint)
    with torch.no_grad():
        network.head.weight.mul_(20)
    seen = []
    for _ in range(4):
        list(method.training_step(network, batch))
        seen.append(network.confidence.item())
    assert seen == sorted(seen)
    assert seen[-1] > 0.8
    torch.testing.assert_close(network.class_means.sum(), torch.tensor(1.0))


def test_moving_means_take_no_part_in_gradients(blueprint: Blueprint, batch: Batch) -> None:
    method = FreeMatch()
    network = method.build(blueprint)
    (update,) = method.training_step(network, batch)
    assert not any(buffer.requires_grad for buffer in network.buffers())
    assert update.loss.requires_grad
