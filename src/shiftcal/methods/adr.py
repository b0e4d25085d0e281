"""Adversarial dropout regularisation: the backbone avoids features at which dropout changes the prediction.

Saito, Ushiku, Harada, Saenko, "Adversarial Dropout Regularization", ICLR 2018, section 3. A critic predicts p_1 and
p_2 from the features, each time with a random half of them dropped; d = ( KL(p_1 || p_2) + KL(p_2 || p_1) ) / 2 C,
with C classes, says how near a target input is to a boundary between classes. A step is three losses in turn:

    1   all        mean_source [ cross_entropy(critic, y) + cross_entropy(head, y) ] - balance_weight mean_y log q(y)
    2   critic     mean_source cross_entropy(critic, y) - mean_target d
    3   backbone   mean_target d, `generator_steps` times

with q(y) the mean of what the critic predicts for target inputs. The critic is made to react to noise, which harms
its own predictions. So the paper trains beside it another head on the source alone, whose loss does not reach the
backbone; predictions here are those of this head, without dropout. The division by C is from the authors' public
code and not in the paper; without it the target easily falls into one class. That the code holds one side of each KL
fixed is not taken over. A backbone is anything, so dropout stands between it and the heads. One optimiser serves all
steps, as one for each part does in the code.

What is ours, against target features that say nothing at all, which no dropout would change: they can't shrink
(`SteadyClassifier`; batch normalisation does that in the authors' networks), classes are balanced as in `mcd`, and
there is one step of the backbone in place of four. The last two were settled on embedded digits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, dropout

from shiftcal.core.options import option
from shiftcal.data.batches import Batch
from shiftcal.functional.class_balance import class_balance_loss
from shiftcal.functional.discrepancy import symmetric_divergence
from shiftcal.methods.base import TASK, Method, Outputs, Update
from shiftcal.methods.networks.classifiers import Blueprint, SteadyClassifier, through_fixed


class CriticisedClassifier(SteadyClassifier):
    """A classifier with a critic beside its head."""

    def __init__(self, blueprint: Blueprint) -> None:
        super().__init__(blueprint)
        self.critic = nn.Linear(self.backbone.feature_dim, blueprint.num_classes)


@dataclass(frozen=True, kw_only=True)
class AdversarialDropout(Method[CriticisedClassifier]):
    """ADR: features away from the boundaries that dropout reveals."""

    needs_target: ClassVar[bool] = True

    dropout_rate: float = option(0.5, "probability that a feature is dropped", above=0, below=1)
    generator_steps: int = option(1, "steps of the backbone after each step of the critic", at_least=1, at_most=1_000)
    balance_weight: float = option(0.03, "of predicting all classes equally often on the target", at_least=0)

    def build(self, blueprint: Blueprint) -> CriticisedClassifier:
        """A classifier with a critic."""
        return CriticisedClassifier(blueprint)

    def training_step(self, network: CriticisedClassifier, batch: Batch) -> Iterator[Update]:
        """The three losses in turn."""
        assert batch.target_inputs is not None
        features, labels = network.features(batch.source_inputs), batch.source_labels
        task_loss = cross_entropy(network.head(dropout(features.detach(), self.dropout_rate)), labels)
        critic_loss = cross_entropy(network.critic(dropout(features, self.dropout_rate)), labels)
        on_target = network.critic(dropout(network.features(batch.target_inputs), self.dropout_rate))
        loss = task_loss + critic_loss + self.balance_weight * class_balance_loss(on_target)
        yield Update(TASK, loss, {"task_loss": task_loss, "critic_loss": critic_loss})

        with torch.no_grad():  # the backbone stands still
            source_features, target_features = map(network.features, (batch.source_inputs, batch.target_inputs))
        critic_loss = cross_entropy(network.critic(dropout(source_features, self.dropout_rate)), labels)
        yield Update(TASK, critic_loss - self._sensitivity(network.critic, target_features))

        for _ in range(self.generator_steps):
            target_features = network.features(batch.target_inputs)
            sensitivity = self._sensitivity(partial(through_fixed, network.critic), target_features)
            yield Update(TASK, sensitivity, {"sensitivity": sensitivity})

    def predict(self, network: CriticisedClassifier, inputs: Tensor) -> Outputs:
        """The logits of the head as they are, with ratio 1."""
        return Outputs.at_ratio_one(*network(inputs))

    def _sensitivity(self, critic: Callable[[Tensor], Tensor], features: Tensor) -> Tensor:
        """The mean of d over the rows, with new masks for each row."""
        first, second = (critic(dropout(features, self.dropout_rate)) for _ in range(2))
        return symmetric_divergence(first, second).mean() / first.shape[-1]
