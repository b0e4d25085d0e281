import numpy as np
import pytest
import torch
from scipy.special import log_softmax

from shiftcal.data.batches import Batch
from shiftcal.methods.networks.classifiers import Blueprint
from shiftcal.methods.pseudo_label import PseudoLabelling


@pytest.mark.parametrize(("progress", "ramp"), [(0.05, 0.0), (0.35, 0.5), (0.8, 1.0)])
def test_the_loss_by_hand(progress: float, ramp: float, blueprint: Blueprint, batch: Batch) -> None:
    method = PseudoLabelling()
    network = method.build(blueprint)
    (update,) = method.training_step(network, batch._replace(progress=progress))

    with torch.no_grad():
        source, target = (
            log_softmax(network(inputs)[0].double().numpy(), axis=1)
            for inputs in (batch.source_inputs, batch.target_inputs)
        )
    task_loss = -source[np.arange(16), batch.source_labels.numpy()].mean()
    pseudo_loss = -target.max(axis=1).mean()
    assert update.logged["pseudo_confidence"].item() == pytest.approx(np.exp(target.max(axis=1)).mean(), rel=1e-5)
    assert update.loss.item() == pytest.approx(task_loss + 3 * ramp * pseudo_loss, rel=1e-5)


def test_its_own_labels_make_it_surer(blueprint: Blueprint, batch: Batch) -> None:
    """The gradient is that of cross-entropy with fixed labels."""
    method = PseudoLabelling()
    network = method.build(blueprint)
    (update,) = method.training_step(network, batch)
    found = torch.autograd.grad(update.logged["pseudo_label_loss"], network.head.bias)[0]
    logits = network(batch.target_inputs)[0]
    expected = (logits.softmax(dim=-1) - torch.eye(3)[logits.argmax(dim=-1)]).mean(dim=0)
    torch.testing.assert_close(found, expected)
