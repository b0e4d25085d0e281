from typing import Literal

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy

from shiftcal.data.batches import Batch
from shiftcal.methods.deep_coral import DeepCoral
from shiftcal.methods.networks.classifiers import Blueprint


@pytest.mark.parametrize("layer", ["logits", "features"])
def test_the_loss_by_hand(blueprint: Blueprint, batch: Batch, layer: Literal["logits", "features"]) -> None:
    method = DeepCoral(coral_weight=3.0, layer=layer)
    network = method.build(blueprint)
    (update,) = method.training_step(network, batch)

    assert batch.target_inputs is not None
    which = 0 if layer == "logits" else 1
    with torch.no_grad():
        task_loss = cross_entropy(network(batch.source_inputs)[0], batch.source_labels).item()
        values = [network(x)[which].double().numpy() for x in (batch.source_inputs, batch.target_inputs)]
    difference = np.cov(values[0], rowvar=False) - np.cov(values[1], rowvar=False)
    coral_loss = (difference**2).sum() / (4 * values[0].shape[1] ** 2)
    assert coral_loss > 0
    assert update.logged["coral_loss"].item() == pytest.approx(coral_loss, rel=1e-4)
    assert update.loss.item() == pytest.approx(task_loss + 3.0 * coral_loss, rel=1e-5)
