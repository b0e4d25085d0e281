"""Confidence penalty: cross-entropy with a reward for predictions of high entropy.

Pereyra et al., "Regularizing Neural Networks by Penalizing Confident Output Distributions", ICLR workshop 2017,
section 3, without the optional annealing and threshold:

    loss = mean_source [ cross_entropy(softmax(z), y) - beta H(softmax(z)) ]
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from torch.nn.functional import cross_entropy

from shiftcal.core.options import option
from shiftcal.data.batches import Batch
from shiftcal.functional.entropy import prediction_entropy
from shiftcal.methods.base import TASK, Update
from shiftcal.methods.networks.classifiers import Classifier
from shiftcal.methods.source_only import SourceOnly


@dataclass(frozen=True, kw_only=True)
class ConfidencePenalty(SourceOnly):
    """Cross-entropy less a multiple of the entropy of the predictions."""

    penalty: float = option(0.1, "weight beta of the entropy", at_least=0)

    def training_step(self, network: Classifier, batch: Batch) -> Iterator[Update]:
        """One step of cross-entropy with the penalty."""
        logits, _ = network(batch.source_inputs)
        task_loss = cross_entropy(logits, batch.source_labels)
        entropy = prediction_entropy(logits).mean()
        yield Update(TASK, task_loss - self.penalty * entropy, {"task_loss": task_loss, "entropy": entropy})
