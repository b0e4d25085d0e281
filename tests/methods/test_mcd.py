from collections.abc import Callable, Iterator

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from shiftcal.data.batches import Batch
from shiftcal.methods.mcd import MaximumClassifierDiscrepancy, TwoHeadClassifier
from shiftcal.methods.networks.classifiers import Blueprint


def test_losses_of_the_three_steps(blueprint: Blueprint, batch: Batch) -> None:
    """Against NumPy; nothing is stepped here, so all losses are of the same network."""
    method = MaximumClassifierDiscrepancy(generator_steps=2, balance_weight=0.3)
    network = method.build(blueprint)
    updates = list(method.training_step(network, batch))

    assert batch.target_inputs is not None
    labels = batch.source_labels.numpy()
    source, target = (probabilities(network, inputs) for inputs in (batch.source_inputs, batch.target_inputs))
    task_loss = sum(-np.log(values[np.arange(16), labels]).mean() for values in source)
    task_loss -= 0.3 * sum(np.log(values.mean(axis=0)).mean() for values in target)
    discrepancy = np.abs(target[0] - target[1]).mean()
    assert discrepancy > 0.01
    expected = [task_loss, task_loss - discrepancy, discrepancy, discrepancy]
    np.testing.assert_allclose([update.loss.item() for update in updates], expected, rtol=1e-5)


def test_the_domains_pass_together(image_batch: Callable[[int], tuple[Blueprint, Batch]]) -> None:
    """Normalised apart under batch norm, they would look more alike in training than they do in prediction."""
    blueprint, batch = image_batch(1)
    network = MaximumClassifierDiscrepancy().build(blueprint)
    sizes = set()
    network.backbone.register_forward_hook(lambda _module, inputs, _outputs: sizes.add(len(inputs[0])))
    list(MaximumClassifierDiscrepancy().training_step(network, batch))
    assert sizes == {12}


def test_each_step_moves_what_it_should(
    blueprint: Blueprint, batch: Batch, moved_parts: Callable[..., Iterator[set[str]]]
) -> None:
    method = MaximumClassifierDiscrepancy(generator_steps=2)
    moved = [{"backbone", "head", "second_head"}, {"head", "second_head"}, {"backbone"}, {"backbone"}]
    assert list(moved_parts(method, method.build(blueprint), batch)) == moved


def test_a_prediction_is_the_mean_of_the_heads(blueprint: Blueprint, batch: Batch) -> None:
    method = MaximumClassifierDiscrepancy()
    network = method.build(blueprint)
    with torch.no_grad():
        logits = method.predict(network, batch.source_inputs).logits
    first, second = probabilities(network, batch.source_inputs)
    np.testing.assert_allclose(logits.exp().numpy(), (first + second) / 2, rtol=1e-5)


def probabilities(network: TwoHeadClassifier, inputs: Tensor) -> list[NDArray[np.float64]]:
    """Of each head."""
    with torch.no_grad():
        features = network.backbone(inputs).double().numpy()
    heads = [
        (head.weight.detach().double(), head.bias.detach().double()) for head in (network.head, network.second_head)
    ]
    odds = [np.exp(features @ weight.numpy().T + bias.numpy()) for weight, bias in heads]
    return [values / values.sum(axis=1, keepdims=True) for values in odds]
