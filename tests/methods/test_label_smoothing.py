import torch
from torch.nn.functional import one_hot

from shiftcal.data.batches import Batch
from shiftcal.methods.label_smoothing import LabelSmoothing
from shiftcal.methods.networks.classifiers import Blueprint


def test_loss_is_the_cross_entropy_with_smoothed_labels(blueprint: Blueprint, batch: Batch) -> None:
    method = LabelSmoothing(smoothing=0.3)
    network = method.build(blueprint)
    (update,) = method.training_step(network, batch)
    smoothed = 0.7 * one_hot(batch.source_labels, 3) + 0.3 / 3
    log_probabilities = network(batch.source_inputs)[0].log_softmax(dim=-1)
    torch.testing.assert_close(update.loss, -(smoothed * log_probabilities).sum(dim=-1).mean())
