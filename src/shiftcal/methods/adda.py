"""Adversarial discriminative domain adaptation: an encoder of the target learns to look like that of the source.

Tzeng, Hoffman, Saenko, Darrell, "Adversarial Discriminative Domain Adaptation", CVPR 2017, Eq. 9. With the encoders
M_s and M_t, the classifier C and the probability D of "source" by a discriminator of features:

    first         M_s and C   task loss      mean_source cross_entropy(C(M_s(x)), y)
    then, with    D           domain loss    -mean_source log D(M_s(x)) - mean_target log(1 - D(M_t(x))), halved
    M_s, C fixed  M_t         mapping loss   -mean_target log D(M_t(x)), the labels of the domains exchanged

M_t starts as a copy of M_s. The paper trains the stages one after the other to convergence; here `source_share` of
the training belongs to the first. A prediction does not know the domain of its input, so there is one encoder for
all: M_s before the adaptation has begun, M_t from then on, for source inputs too. The network holds it as `task`, and
at the switch keeps a copy of it as it is, M_s, for the discriminator to compare with. That has two hidden layers with
ReLU, as the paper's.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, softplus

from shiftcal.core.options import option
from shiftcal.data.batches import Batch
from shiftcal.functional.density_ratio import domain_loss
from shiftcal.methods.base import TASK, Method, OptimizerPlan, Outputs, Update
from shiftcal.methods.networks.classifiers import Blueprint, Classifier, Discriminator, frozen_statistics

DOMAIN = "domain"
ENCODER = "encoder"


class TwoEncoderNetwork(nn.Module):
    """A classifier, the source encoder that it had before adaptation, and a discriminator."""

    is_adapting: Tensor

    def __init__(self, blueprint: Blueprint, domain_hidden: int) -> None:
        super().__init__()
        self.task = Classifier(blueprint)
        self.source_encoder = copy.deepcopy(self.task.backbone).requires_grad_(False)
        self.domain = Discriminator(self.task.backbone.feature_dim, domain_hidden)
        # A buffer, so that a resumed run does not copy the encoder a second time.
        self.register_buffer("is_adapting", torch.zeros((), dtype=torch.bool))

    def begin_adaptation(self) -> None:
        """Keep the source encoder; from now on the task's encoder is that of the target."""
        self.source_encoder.load_state_dict(self.task.backbone.state_dict())
        self.is_adapting.fill_(True)


@dataclass(frozen=True, kw_only=True)
class AdversarialDiscriminative(Method[TwoEncoderNetwork]):
    """ADDA: source training first, then a target encoder against a discriminator."""

    needs_target: ClassVar[bool] = True

    source_share: float = option(0.5, "share of training before adaptation begins", at_least=0, at_most=1)
    adaptation_learning_rate: float = option(2e-4, "step size of target encoder and discriminator", above=0)
    domain_hidden: int = option(500, "width of the discriminator", at_least=1, at_most=65_536)

    def build(self, blueprint: Blueprint) -> TwoEncoderNetwork:
        """A classifier, room for its source encoder, and a discriminator."""
        return TwoEncoderNetwork(blueprint, self.domain_hidden)

    def optimizers(self, network: TwoEncoderNetwork) -> dict[str, OptimizerPlan]:
        """The classifier in the first stage; discriminator and encoder, which take turns, in the second."""
        rate = self.adaptation_learning_rate
        return {
            TASK: self.optimizer_plan(network.task.parameters()),
            DOMAIN: self.optimizer_plan(network.domain.parameters(), learning_rate=rate),
            ENCODER: self.optimizer_plan(network.task.backbone.parameters(), learning_rate=rate),
        }

    def training_step(self, network: TwoEncoderNetwork, batch: Batch) -> Iterator[Update]:
        """A step of the stage that training is in."""
        if batch.progress < self.source_share:
            task_loss = cross_entropy(network.task(batch.source_inputs)[0], batch.source_labels)
            yield Update(TASK, task_loss, {"task_loss": task_loss})
            return
        if not network.is_adapting:
            network.begin_adaptation()
        assert batch.target_inputs is not None
        with torch.no_grad(), frozen_statistics(network.source_encoder):
            source_features = network.source_encoder(batch.source_inputs)
        target_features = network.task.backbone(batch.target_inputs)
        features = torch.cat([source_features, target_features.detach()])
        telling_apart = domain_loss(network.domain(features), len(source_features))
        yield Update(DOMAIN, telling_apart, {"domain_loss": telling_apart})
        mapping_loss = softplus(-network.domain(target_features)).mean()
        yield Update(ENCODER, mapping_loss, {"mapping_loss": mapping_loss})

    def predict(self, network: TwoEncoderNetwork, inputs: Tensor) -> Outputs:
        """The logits by the one encoder there is for predictions, with ratio 1."""
        return Outputs.at_ratio_one(*network.task(inputs))
