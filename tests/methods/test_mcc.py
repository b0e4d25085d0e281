import numpy as np
import pytest
import torch
from scipy.special import softmax
from torch.nn.functional import cross_entropy

from shiftcal.data.batches import Batch
from shiftcal.methods.mcc import MinimumClassConfusion
from shiftcal.methods.networks.classifiers import Blueprint


def test_the_loss_by_hand(blueprint: Blueprint, batch: Batch) -> None:
    method = MinimumClassConfusion(confusion_weight=2.0, temperature=1.5)
    network = method.build(blueprint)
    (update,) = method.training_step(network, batch)

    with torch.no_grad():
        task_loss = cross_entropy(network(batch.source_inputs)[0], batch.source_labels).item()
        probabilities = softmax(network(batch.target_inputs)[0].double().numpy() / 1.5, axis=1)
    weights = 1 + np.exp((probabilities * np.log(probabilities)).sum(axis=1))
    confusion = np.zeros((3, 3))
    for row, weight in zip(probabilities, weights / weights.mean(), strict=True):
        confusion += weight * np.outer(row, row)
    confusion /= confusion.sum(axis=1, keepdims=True)
    expected = confusion[~np.eye(3, dtype=bool)].sum() / 3
    assert update.logged["confusion_loss"].item() == pytest.approx(expected, rel=1e-5)
    assert update.loss.item() == pytest.approx(task_loss + 2.0 * expected, rel=1e-5)


def test_only_the_target_is_to_be_less_confused(blueprint: Blueprint, batch: Batch) -> None:
    method = MinimumClassConfusion()
    network = method.build(blueprint)
    (update,) = method.training_step(network, batch)
    elsewhere = batch._replace(source_inputs=batch.source_inputs + 1)
    (other,) = method.training_step(network, elsewhere)
    torch.testing.assert_close(update.logged["confusion_loss"], other.logged["confusion_loss"])
    assert update.logged["task_loss"] != other.logged["task_loss"]
