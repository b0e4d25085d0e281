import torch
from torch.distributions import Categorical
from torch.nn.functional import cross_entropy

from shiftcal.data.batches import Batch
from shiftcal.methods.confidence_penalty import ConfidencePenalty
from shiftcal.methods.networks.classifiers import Blueprint


def test_loss_is_the_cross_entropy_less_the_entropy(blueprint: Blueprint, batch: Batch) -> None:
    method = ConfidencePenalty(penalty=0.5)
    network = method.build(blueprint)
    (update,) = method.training_step(network, batch)
    logits, _ = network(batch.source_inputs)
    entropy = Categorical(logits=logits).entropy().mean()  # type: ignore[no-untyped-call]
    torch.testing.assert_close(update.loss, cross_entropy(logits, batch.source_labels) - 0.5 * entropy)
