from collections.abc import Callable, Iterator

import numpy as np
import torch
from torch.nn.functional import cross_entropy, dropout

from shiftcal.data.batches import Batch
from shiftcal.methods.muda import ModelUncertainty
from shiftcal.methods.networks.classifiers import Blueprint


def test_losses_for_the_same_masks(blueprint: Blueprint, batch: Batch) -> None:
    """The uncertainty by NumPy; nothing is stepped here, so all losses are of the same network."""
    method = ModelUncertainty(dropout_rate=0.3, num_passes=4, uncertainty_weight=2.0)
    network = method.build(blueprint)
    torch.manual_seed(0)
    updates = list(method.training_step(network, batch))
    assert len(updates) == 3

    task_loss = cross_entropy(network(batch.source_inputs)[0], batch.source_labels)
    torch.testing.assert_close(updates[0].loss, task_loss)
    torch.testing.assert_close(updates[1].loss, task_loss)

    assert batch.target_inputs is not None
    torch.manual_seed(0)
    with torch.no_grad():
        features = network.features(batch.target_inputs)
        passes = [network.head(dropout(features, 0.3)).double().softmax(dim=-1).numpy() for _ in range(4)]
    uncertainty = np.sqrt((np.std(passes, axis=0, ddof=1) ** 2).sum(axis=-1)).mean()
    np.testing.assert_allclose(updates[2].loss.item(), task_loss.item() + 2 * uncertainty, rtol=1e-5)
    np.testing.assert_allclose(updates[2].logged["uncertainty"].item(), uncertainty, rtol=1e-5)


def test_each_step_moves_what_it_should(
    blueprint: Blueprint, batch: Batch, moved_parts: Callable[..., Iterator[set[str]]]
) -> None:
    method = ModelUncertainty()
    moved = [{"backbone", "head"}, {"head"}, {"backbone"}]
    assert list(moved_parts(method, method.build(blueprint), batch)) == moved


def test_predictions_are_without_dropout(blueprint: Blueprint, batch: Batch) -> None:
    method = ModelUncertainty()
    network = method.build(blueprint)
    with torch.no_grad():
        logits = method.predict(network, batch.source_inputs).logits
        torch.testing.assert_close(logits, network(batch.source_inputs)[0])
