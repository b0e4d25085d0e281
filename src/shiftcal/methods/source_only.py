"""Empirical risk minimisation on the source: what everything else is compared with.

loss = mean_source cross_entropy(softmax(z), y)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from torch import Tensor
from torch.nn.functional import cross_entropy

from shiftcal.data.batches import Batch
from shiftcal.methods.base import TASK, Method, Outputs, Update
from shiftcal.methods.networks.classifiers import Blueprint, Classifier


@dataclass(frozen=True, kw_only=True)
class SourceOnly(Method[Classifier]):
    """Cross-entropy on source labels; the target is not looked at."""

    def build(self, blueprint: Blueprint) -> Classifier:
        """A classifier."""
        return Classifier(blueprint)

    def training_step(self, network: Classifier, batch: Batch) -> Iterator[Update]:
        """One step of cross-entropy."""
        logits, _ = network(batch.source_inputs)
        loss = cross_entropy(logits, batch.source_labels)
        yield Update(TASK, loss, {"task_loss": loss})

    def predict(self, network: Classifier, inputs: Tensor) -> Outputs:
        """The logits as they are, with ratio 1."""
        return Outputs.at_ratio_one(*network(inputs))
