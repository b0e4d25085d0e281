"""Domain-adversarial training: features from which a discriminator can't tell the domain.

Ganin et al., "Domain-Adversarial Training of Neural Networks", JMLR 17, 2016, Eq. 9 to 11:

    loss = mean_source cross_entropy(softmax(z), y) + domain_loss( D( R(features) ) )

R passes the features on and turns their gradient round, scaled by lambda: D learns to tell source from target while
the features learn to prevent it. With the share p of training that is behind, lambda = 2 / (1 + exp(-10 p)) - 1; it
applies to the features only, so D learns at full pace from the start. As in the usual implementations the domain
loss is a mean over both domains, half of Eq. 9's sum of their means. D has two hidden layers, as the paper's on large
networks; theirs are 1024 wide.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from shiftcal.core.options import option
from shiftcal.data.batches import Batch
from shiftcal.functional.density_ratio import domain_loss
from shiftcal.functional.gradient_reversal import reversal_scale, reverse_gradient
from shiftcal.methods.base import TASK, Method, Outputs, Update
from shiftcal.methods.networks.classifiers import Blueprint, ClassifierWithDiscriminator, Discriminator


@dataclass(frozen=True, kw_only=True)
class DomainAdversarial(Method[ClassifierWithDiscriminator]):
    """Source cross-entropy on features that a discriminator of domains is confused by."""

    needs_target: ClassVar[bool] = True

    domain_weight: float = option(1.0, "lambda at the end, of confusing the discriminator", at_least=0)
    domain_hidden: int = option(256, "width of the discriminator", at_least=1, at_most=65_536)

    def build(self, blueprint: Blueprint) -> ClassifierWithDiscriminator:
        """A classifier with a discriminator on its features."""
        return ClassifierWithDiscriminator(blueprint, lambda dim: Discriminator(dim, self.domain_hidden))

    def training_step(self, network: ClassifierWithDiscriminator, batch: Batch) -> Iterator[Update]:
        """One step of both players, by the reversed gradient."""
        assert batch.target_inputs is not None
        num_source = len(batch.source_inputs)
        logits, features = network.task(torch.cat([batch.source_inputs, batch.target_inputs]))
        scale = self.domain_weight * reversal_scale(batch.progress)
        task_loss = cross_entropy(logits[:num_source], batch.source_labels)
        confusion_loss = domain_loss(network.domain(reverse_gradient(features, scale)), num_source)
        yield Update(TASK, task_loss + confusion_loss, {"task_loss": task_loss, "domain_loss": confusion_loss})

    def predict(self, network: ClassifierWithDiscriminator, inputs: Tensor) -> Outputs:
        """The logits as they are, with ratio 1: the discriminator sees features from which the shift was removed."""
        return Outputs.at_ratio_one(*network.task(inputs))
