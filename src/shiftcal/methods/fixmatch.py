"""FixMatch: sure predictions on weakly changed unlabelled inputs are the labels of strongly changed ones.

Sohn, Berthelot, Li, Zhang, Carlini, Cubuk, Kurakin, Zhang, Raffel, "FixMatch: Simplifying Semi-Supervised Learning
with Consistency and Confidence", NeurIPS 2020, Eq. 3 and 4:

    loss = mean_source cross_entropy( softmax(z(weak x)), y )
         + w mean_target 1[ max q >= threshold ] cross_entropy( softmax(z(strong x)), argmax q )
    q    = softmax(z(weak x)), without gradient

Views, settings and what is ours in them: `shiftcal.methods.shared.consistency`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from shiftcal.core.options import option
from shiftcal.data.batches import Batch
from shiftcal.functional.consistency import consistency_loss, pseudo_label_record
from shiftcal.methods.base import TASK, Update
from shiftcal.methods.networks.classifiers import Classifier
from shiftcal.methods.shared.consistency import ConsistencyMethod, accepted_labels, classify_views


@dataclass(frozen=True, kw_only=True)
class FixMatch(ConsistencyMethod):
    """Pseudo-labels from weak views, where they are sure, for strong views."""

    threshold: float = option(0.95, "least confidence of a pseudo-label", at_least=0, at_most=1)

    def training_step(self, network: Classifier, batch: Batch) -> Iterator[Update]:
        """One step on labels and pseudo-labels."""
        labelled, weak, strong, _ = classify_views(network, batch)
        probabilities = torch.softmax(weak.logits, dim=-1)
        thresholds = self.thresholds(network, batch, probabilities)
        task_loss = cross_entropy(labelled.logits, batch.source_labels)
        agreement_loss, kept = consistency_loss(probabilities, strong.logits, thresholds)
        yield Update(
            TASK,
            task_loss + self.unlabelled_weight * agreement_loss,
            {"task_loss": task_loss, "consistency_loss": agreement_loss, **pseudo_label_record(probabilities, kept)},
            accepted_labels(batch, probabilities, kept),
        )

    def thresholds(self, network: Classifier, batch: Batch, probabilities: Tensor) -> float | Tensor:
        """The least confidence of a pseudo-label: one for all rows, or (N,) for each."""
        del network, batch, probabilities
        return self.threshold
