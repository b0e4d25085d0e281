"""Conditional domain-adversarial training: the discriminator sees features together with the predicted classes.

Long, Cao, Wang, Jordan, "Conditional Adversarial Domain Adaptation", NeurIPS 2018, section 3:

    loss = mean_source cross_entropy(softmax(z), y) + domain_loss( D( T(R(f), g) ), weights w ),   g = softmax(z)

f are the features, R reverses their gradient as in `dann`, with the same growing lambda. T is the outer product of f
and g, or where that has more than 4096 entries a random projection of it to 1024 that keeps inner products in
expectation. With entropy conditioning (CDAN+E) sure predictions count more, w = 1 + exp(-H(g)), with mean one in each
domain. As in the authors' code g is taken as given, so that the classifier is not trained to hide its doubts from D;
so are the weights here (theirs let the reversed gradient through). D has two hidden layers of 1024 as theirs has,
without their dropout.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from shiftcal.core.options import option
from shiftcal.core.processes import mean_over_batch
from shiftcal.data.batches import Batch
from shiftcal.functional.density_ratio import domain_loss
from shiftcal.functional.entropy import certainty_weights
from shiftcal.functional.gradient_reversal import reversal_scale, reverse_gradient
from shiftcal.functional.multilinear import multilinear_map, randomised_multilinear_map
from shiftcal.methods.base import TASK, Method, Outputs, Update
from shiftcal.methods.networks.classifiers import (
    Blueprint,
    Classifier,
    Discriminator,
    DomainOutputs,
    classify_jointly,
)

LARGEST_PRODUCT = 4096
PROJECTED_DIM = 1024


class ConditionalNetwork(nn.Module):
    """A classifier, a discriminator of its features and predictions, and fixed random matrices where needed."""

    feature_matrix: Tensor | None
    class_matrix: Tensor | None

    def __init__(self, blueprint: Blueprint, domain_hidden: int) -> None:
        super().__init__()
        self.task = Classifier(blueprint)
        feature_dim, num_classes = self.task.backbone.feature_dim, blueprint.num_classes
        exact = feature_dim * num_classes <= LARGEST_PRODUCT
        self.domain = Discriminator(feature_dim * num_classes if exact else PROJECTED_DIM, domain_hidden)
        self.register_buffer("feature_matrix", None if exact else torch.randn(feature_dim, PROJECTED_DIM))
        self.register_buffer("class_matrix", None if exact else torch.randn(num_classes, PROJECTED_DIM))

    def domain_logit(self, features: Tensor, probabilities: Tensor) -> Tensor:
        """Logit (N,) of "source" from features (N, F) and probabilities (N, C)."""
        if self.feature_matrix is None or self.class_matrix is None:
            joint = multilinear_map(features, probabilities)
        else:
            joint = randomised_multilinear_map(features, probabilities, self.feature_matrix, self.class_matrix)
        logit: Tensor = self.domain(joint)
        return logit


@dataclass(frozen=True, kw_only=True)
class ConditionalAdversarial(Method[ConditionalNetwork]):
    """CDAN, by default CDAN+E: domain-adversarial features, aligned class by class."""

    needs_target: ClassVar[bool] = True

    domain_weight: float = option(1.0, "lambda at the end, of confusing the discriminator", at_least=0)
    domain_hidden: int = option(1024, "width of the discriminator", at_least=1, at_most=65_536)
    entropy_conditioning: bool = option(True, "CDAN+E: samples with sure predictions count more")

    def build(self, blueprint: Blueprint) -> ConditionalNetwork:
        """A classifier with a discriminator on features and predictions."""
        return ConditionalNetwork(blueprint, self.domain_hidden)

    def training_step(self, network: ConditionalNetwork, batch: Batch) -> Iterator[Update]:
        """One step of both players, by the reversed gradient."""
        assert batch.target_inputs is not None
        source, target = classify_jointly(network.task, batch.source_inputs, batch.target_inputs)
        scale = self.domain_weight * reversal_scale(batch.progress)
        logit = torch.cat(
            [
                network.domain_logit(reverse_gradient(seen.features, scale), seen.logits.detach().softmax(dim=-1))
                for seen in (source, target)
            ]
        )
        task_loss = cross_entropy(source.logits, batch.source_labels)
        weights = torch.cat([_weights(source), _weights(target)]) if self.entropy_conditioning else None
        confusion_loss = domain_loss(logit, len(source.logits), weights)
        yield Update(TASK, task_loss + confusion_loss, {"task_loss": task_loss, "domain_loss": confusion_loss})

    def predict(self, network: ConditionalNetwork, inputs: Tensor) -> Outputs:
        """The logits as they are, with ratio 1: the discriminator sees features from which the shift was removed."""
        return Outputs.at_ratio_one(*network.task(inputs))


def _weights(seen: DomainOutputs) -> Tensor:
    """(N,) with mean one over the domain's part of the batch."""
    weights = certainty_weights(seen.logits.detach())
    return weights / mean_over_batch(weights)
