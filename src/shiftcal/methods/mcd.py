"""Maximum classifier discrepancy: two heads look for target inputs on which they differ, the backbone avoids these.

Saito, Watanabe, Ushiku, Harada, "Maximum Classifier Discrepancy for Unsupervised Domain Adaptation", CVPR 2018,
section 3.3. With two heads on one backbone, d(x) = mean_y |p_1(y|x) - p_2(y|x)| and the mean q_h(y) of p_h(y|x) over
target inputs, a step is three losses in turn:

    A (Eq. 3)     all        mean_source sum_h cross_entropy(p_h, y) - balance_weight sum_h mean_y log q_h(y)
    B (Eq. 4-5)   heads      the loss of A - mean_target d
    C (Eq. 6)     backbone   mean_target d, `generator_steps` times
    prediction               (p_1 + p_2) / 2

The balance of classes is not in the paper's equations but in the authors' code for VisDA, with this weight; without
it the heads easily agree by predicting few classes. One optimiser serves all steps, as one for each part does there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from shiftcal.core.options import option
from shiftcal.data.batches import Batch
from shiftcal.functional.averaging import log_mean_probabilities
from shiftcal.functional.class_balance import class_balance_loss
from shiftcal.functional.discrepancy import absolute_discrepancy
from shiftcal.methods.base import TASK, Method, Outputs, Update
from shiftcal.methods.networks.classifiers import Blueprint, Classifier, through_fixed


class TwoHeadClassifier(Classifier):
    """A classifier with a second head, which starts from other weights."""

    def __init__(self, blueprint: Blueprint) -> None:
        super().__init__(blueprint)
        self.second_head = nn.Linear(self.backbone.feature_dim, blueprint.num_classes)

    def both(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """Logits (N, C) of each head."""
        return self.head(features), self.second_head(features)


@dataclass(frozen=True, kw_only=True)
class MaximumClassifierDiscrepancy(Method[TwoHeadClassifier]):
    """MCD: features on which two different classifiers agree."""

    needs_target: ClassVar[bool] = True

    generator_steps: int = option(4, "steps of the backbone after each step of the heads", at_least=1, at_most=1_000)
    balance_weight: float = option(0.01, "of predicting all classes equally often on the target", at_least=0)

    def build(self, blueprint: Blueprint) -> TwoHeadClassifier:
        """A backbone with two heads."""
        return TwoHeadClassifier(blueprint)

    def training_step(self, network: TwoHeadClassifier, batch: Batch) -> Iterator[Update]:
        """Steps A, B and C."""
        source_features, target_features = self._features(network, batch)
        task_loss, _ = self._look(network, source_features, target_features, batch.source_labels)
        yield Update(TASK, task_loss, {"task_loss": task_loss})

        with torch.no_grad():  # the backbone stands still
            source_features, target_features = self._features(network, batch)
        task_loss, discrepancy = self._look(network, source_features, target_features, batch.source_labels)
        yield Update(TASK, task_loss - discrepancy)

        for _ in range(self.generator_steps):
            _, target_features = self._features(network, batch)
            heads = (network.head, network.second_head)
            discrepancy = absolute_discrepancy(*(through_fixed(head, target_features) for head in heads)).mean()
            yield Update(TASK, discrepancy, {"discrepancy": discrepancy})

    def predict(self, network: TwoHeadClassifier, inputs: Tensor) -> Outputs:
        """Logarithms of the mean probabilities of the two heads, with ratio 1."""
        features = network.backbone(inputs)
        logits = log_mean_probabilities(torch.stack(network.both(features)))
        return Outputs.at_ratio_one(logits, features)

    def _features(self, network: TwoHeadClassifier, batch: Batch) -> tuple[Tensor, Tensor]:
        """Of source and target in one pass, also where only the target's are needed: see `classify_jointly`."""
        assert batch.target_inputs is not None
        both = network.backbone(torch.cat([batch.source_inputs, batch.target_inputs]))
        source_features, target_features = both.split([len(batch.source_inputs), len(batch.target_inputs)])
        return source_features, target_features

    def _look(
        self, network: TwoHeadClassifier, source_features: Tensor, target_features: Tensor, labels: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The loss of A and the mean of d."""
        source, target = network.both(source_features), network.both(target_features)
        losses = [cross_entropy(logits, labels) for logits in source]
        losses += [self.balance_weight * class_balance_loss(logits) for logits in target]
        return torch.stack(losses).sum(), absolute_discrepancy(*target).mean()
