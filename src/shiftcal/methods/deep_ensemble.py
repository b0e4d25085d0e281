"""Deep ensemble: networks of different initialisation, trained side by side, whose probabilities are averaged.

Lakshminarayanan, Pritzel, Blundell, "Simple and Scalable Predictive Uncertainty Estimation using Deep Ensembles",
NeurIPS 2017, Algorithm 1 without its optional adversarial examples:

    loss         sum_m mean_source cross_entropy(softmax(z_m), y)
    prediction   mean_m softmax(z_m)

No parameter is shared, so the sum trains each member as if it were alone (but for `gradient_clip`, which limits the
gradient of all of them together). The members see the same batches in the same order, where the paper shuffles for
each: their differences come from initialisation. Pretrained backbones start alike, and only their heads differ.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from shiftcal.core.options import option
from shiftcal.data.batches import Batch
from shiftcal.functional.averaging import log_mean_probabilities
from shiftcal.methods.base import TASK, Method, Outputs, Update
from shiftcal.methods.networks.classifiers import Blueprint, Classifier


class Ensemble(nn.Module):
    """Classifiers side by side."""

    def __init__(self, blueprint: Blueprint, num_members: int) -> None:
        super().__init__()
        self.members = nn.ModuleList(Classifier(blueprint) for _ in range(num_members))

    def forward(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Logits (M, N, C) of the members, and their features one after the other (N, M F)."""
        logits, features = zip(*(member(inputs) for member in self.members), strict=True)
        return torch.stack(logits), torch.cat(features, dim=1)


@dataclass(frozen=True, kw_only=True)
class DeepEnsemble(Method[Ensemble]):
    """Source-only training of several networks, whose probabilities are averaged."""

    num_members: int = option(5, "networks", at_least=1, at_most=1_000)

    def build(self, blueprint: Blueprint) -> Ensemble:
        """Classifiers of different initialisation."""
        return Ensemble(blueprint, self.num_members)

    def training_step(self, network: Ensemble, batch: Batch) -> Iterator[Update]:
        """One step of cross-entropy for each member."""
        logits, _ = network(batch.source_inputs)
        losses = torch.stack([cross_entropy(own, batch.source_labels) for own in logits])
        yield Update(TASK, losses.sum(), {"task_loss": losses.mean()})

    def predict(self, network: Ensemble, inputs: Tensor) -> Outputs:
        """Logits of the mean probabilities."""
        members, features = network(inputs)
        logits = log_mean_probabilities(members)
        return Outputs.at_ratio_one(logits, features)
