from math import tanh

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy

from shiftcal.data.batches import Batch
from shiftcal.methods.dann import DomainAdversarial
from shiftcal.methods.networks.classifiers import Blueprint, ClassifierWithDiscriminator


def built(blueprint: Blueprint, **options: float) -> tuple[DomainAdversarial, ClassifierWithDiscriminator]:
    method = DomainAdversarial(**options)  # type: ignore[arg-type]
    return method, method.build(blueprint)


def test_the_loss_is_cross_entropy_of_classes_and_of_domains(blueprint: Blueprint, batch: Batch) -> None:
    method, network = built(blueprint)
    (update,) = method.training_step(network, batch)
    assert batch.target_inputs is not None
    with torch.no_grad():
        logits = network.task(batch.source_inputs)[0]
        domain_logits = [
            network.domain(network.task(x)[1]).numpy() for x in (batch.source_inputs, batch.target_inputs)
        ]
    is_source = 1 / (1 + np.exp(-np.concatenate(domain_logits).astype(np.float64)))
    right = np.where(np.arange(32) < 16, is_source, 1 - is_source)
    expected = cross_entropy(logits, batch.source_labels).item() - np.log(right).mean()
    assert update.loss.item() == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("domain_weight", [1.0, 0.3])
def test_features_work_against_the_discriminator_and_the_discriminator_for_itself(
    blueprint: Blueprint, batch: Batch, domain_weight: float
) -> None:
    """By the domain loss alone, whose gradients are those without a reversal times -lambda, or as they are."""
    method, network = built(blueprint, domain_weight=domain_weight)
    (update,) = method.training_step(network, batch)
    confusion = update.logged["domain_loss"]
    assert batch.target_inputs is not None
    source, target = (network.domain(network.task(x)[1]) for x in (batch.source_inputs, batch.target_inputs))
    plain = -(source.sigmoid().log().mean() + (1 - target.sigmoid()).log().mean()) / 2

    backbone, discriminator = next(network.task.backbone.parameters()), next(network.domain.parameters())
    reversed_, own = torch.autograd.grad(confusion, [backbone, discriminator], retain_graph=True)
    plain_backbone, plain_own = torch.autograd.grad(plain, [backbone, discriminator])
    torch.testing.assert_close(own, plain_own)
    torch.testing.assert_close(reversed_, -domain_weight * tanh(10 * batch.progress / 2) * plain_backbone)


def test_at_the_start_the_features_are_left_alone(blueprint: Blueprint, batch: Batch) -> None:
    method, network = built(blueprint)
    (update,) = method.training_step(network, batch._replace(progress=0.0))
    (gradient,) = torch.autograd.grad(update.logged["domain_loss"], [next(network.task.backbone.parameters())])
    assert gradient.abs().max() == 0
