"""Source training that stays near the network that it started from, for pretrained backbones and synthetic sources.

Chen, Yu, Wang, Anandkumar, "Automated Synthetic-to-Real Generalization", ICML 2020, proxy guidance:

    loss = mean_source [ cross_entropy(softmax(z), y) + w KL( softmax(u_0) || softmax(u) ) ]

The teacher, u_0, is the network before training and is never changed; u is the same of the network that is trained.

What is established, from the abstract and the authors' code for VisDA: the loss, with the logits of the ImageNet
classifier for u and w = 0.1; a step size of the backbone that is a tenth of the head's. What is ours: backbones come
without the classifier that they were pretrained with, so u is the features themselves, scaled to a root mean square
of 1, which makes the divergence independent of their size and number; the ratio of step sizes is fixed, where the
paper learns a policy for those of all layers by reinforcement (L2O); batch norm trains as in any method, where the
authors' code keeps its statistics. A backbone that starts at random has nothing to stay near to: this is for
`NAME:pretrained` or `initial_run`. The result in turn can be the `initial_run` of self-training.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, normalize

from shiftcal.core.options import option
from shiftcal.data.batches import Batch
from shiftcal.functional.entropy import prediction_divergence
from shiftcal.methods.base import TASK, Method, OptimizerPlan, Outputs, Update
from shiftcal.methods.networks.classifiers import Blueprint, Classifier, frozen_statistics


class GuidedNetwork(nn.Module):
    """A classifier, and its backbone as it was before training."""

    def __init__(self, blueprint: Blueprint) -> None:
        super().__init__()
        self.task = Classifier(blueprint)
        self.teacher = copy.deepcopy(self.task.backbone).requires_grad_(False)


@dataclass(frozen=True, kw_only=True)
class ProxyGuidance(Method[GuidedNetwork]):
    """ASG: source cross-entropy, near to the pretrained features and with small steps of the backbone."""

    guidance_weight: float = option(0.1, "w, of staying near the first features", at_least=0)
    backbone_factor: float = option(0.1, "step size of the backbone, relative to the head's", above=0)

    def build(self, blueprint: Blueprint) -> GuidedNetwork:
        """A classifier and its teacher."""
        return GuidedNetwork(blueprint)

    def optimizers(self, network: GuidedNetwork) -> dict[str, OptimizerPlan]:
        """One, with a smaller step size for the backbone."""
        groups: list[dict[str, Any]] = [
            {"params": list(network.task.head.parameters())},
            {"params": list(network.task.backbone.parameters()), "lr": self.learning_rate * self.backbone_factor},
        ]
        return {TASK: self.optimizer_plan(groups)}

    def training_step(self, network: GuidedNetwork, batch: Batch) -> Iterator[Update]:
        """One step of cross-entropy and guidance."""
        logits, features = network.task(batch.source_inputs)
        with torch.no_grad(), frozen_statistics(network.teacher):
            taught = network.teacher(batch.source_inputs)
        task_loss = cross_entropy(logits, batch.source_labels)
        guidance_loss = prediction_divergence(scaled(taught), scaled(features)).mean()
        yield Update(
            TASK,
            task_loss + self.guidance_weight * guidance_loss,
            {"task_loss": task_loss, "guidance_loss": guidance_loss},
        )

    def predict(self, network: GuidedNetwork, inputs: Tensor) -> Outputs:
        """The logits as they are, with ratio 1."""
        return Outputs.at_ratio_one(*network.task(inputs))


def scaled(features: Tensor) -> Tensor:
    """Features (N, F) with a root mean square of 1 in each row, to be taken as logits."""
    return normalize(features, dim=-1) * math.sqrt(features.shape[1])
