from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.special import expit, softmax
from torch import nn
from torch.nn.functional import cross_entropy

from shiftcal.data.batches import Batch
from shiftcal.methods.cdan import PROJECTED_DIM, ConditionalAdversarial, ConditionalNetwork
from shiftcal.methods.networks.backbones import InputStatistics, build_backbone
from shiftcal.methods.networks.classifiers import Blueprint


def built(blueprint: Blueprint, **options: Any) -> tuple[ConditionalAdversarial, ConditionalNetwork]:
    """A method, and a network whose discriminator is no longer undecided and whose predictions are not alike."""
    method = ConditionalAdversarial(domain_hidden=20, **options)
    network = method.build(blueprint)
    generator = torch.Generator().manual_seed(0)
    for weight in (network.domain.layers[-1].weight, network.task.head.weight):
        nn.init.normal_(weight, generator=generator)  # type: ignore[arg-type]
    return method, network


def weighted_mean(values: NDArray[np.float64], probabilities: NDArray[np.float64], entropy: bool) -> float:
    weights = 1 + np.exp((probabilities * np.log(probabilities)).sum(axis=1)) if entropy else np.ones(len(values))
    return float((weights * values).sum() / weights.sum())


def first_layer(network: ConditionalNetwork) -> nn.Linear:
    """Of the discriminator."""
    return next(module for module in network.domain.modules() if isinstance(module, nn.Linear))


@pytest.mark.parametrize("entropy_conditioning", [True, False])
def test_the_loss_by_hand(blueprint: Blueprint, batch: Batch, entropy_conditioning: bool) -> None:
    method, network = built(blueprint, entropy_conditioning=entropy_conditioning)
    (update,) = method.training_step(network, batch)

    domain_losses = []
    assert batch.target_inputs is not None
    for inputs, sign in ((batch.source_inputs, 1), (batch.target_inputs, -1)):
        with torch.no_grad():
            logits, features = (part.numpy().astype(np.float64) for part in network.task(inputs))
            probabilities = softmax(logits, axis=1)
            joint = np.stack([np.outer(f, g).ravel() for f, g in zip(features, probabilities, strict=True)])
            domain_logit = network.domain(torch.from_numpy(joint).float()).numpy().astype(np.float64)
        domain_losses.append(weighted_mean(-np.log(expit(sign * domain_logit)), probabilities, entropy_conditioning))
    task_loss = cross_entropy(network.task(batch.source_inputs)[0], batch.source_labels).item()
    assert update.loss.item() == pytest.approx(task_loss + sum(domain_losses) / 2, rel=1e-4)


def test_predictions_and_weights_are_taken_as_given(blueprint: Blueprint, batch: Batch) -> None:
    """The domain loss reaches the backbone by the features, reversed, and the head not at all."""
    method, network = built(blueprint)
    (update,) = method.training_step(network, batch)
    loss = update.logged["domain_loss"]
    (of_head,) = torch.autograd.grad(loss, [network.task.head.weight], allow_unused=True, retain_graph=True)
    assert of_head is None
    backbone = next(network.task.backbone.parameters())
    (hindering,) = torch.autograd.grad(loss, [backbone])

    (update,) = method.training_step(network, batch._replace(progress=0.0))
    (without,) = torch.autograd.grad(update.logged["domain_loss"], [backbone])
    assert without.abs().max() == 0
    with torch.no_grad():
        backbone -= 1e-4 * hindering  # a step of the task's optimiser makes the domains harder to tell apart
    (update,) = method.training_step(network, batch)
    assert update.logged["domain_loss"] > loss


def test_a_large_product_is_projected_by_matrices_that_do_not_change(batch: Batch) -> None:
    statistics = InputStatistics(torch.zeros(4), torch.ones(4))
    wide = nn.Linear(4, 1400)
    method, network = built(Blueprint(lambda: build_backbone(wide, (4,), statistics), 3, has_target=True))
    assert network.feature_matrix is not None
    assert network.class_matrix is not None
    assert first_layer(network).in_features == PROJECTED_DIM
    assert {"feature_matrix", "class_matrix"} <= set(network.state_dict())
    assert not {"feature_matrix", "class_matrix"} & {name for name, _ in network.named_parameters()}
    (update,) = method.training_step(network, batch)
    assert torch.isfinite(update.loss)

    with torch.no_grad():
        logits, features = network.task(batch.source_inputs)
        probabilities = logits.softmax(dim=1)
        projected = (features @ network.feature_matrix) * (probabilities @ network.class_matrix) / PROJECTED_DIM**0.5
        torch.testing.assert_close(network.domain_logit(features, probabilities), network.domain(projected))


def test_a_small_product_is_exact(blueprint: Blueprint) -> None:
    _, network = built(blueprint)
    assert network.feature_matrix is None
    assert first_layer(network).in_features == 256 * 3
