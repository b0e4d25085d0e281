"""Minimum class confusion: target predictions that do not waver between classes.

Jin, Wang, Long, Wang, "Minimum Class Confusion for Versatile Domain Adaptation", ECCV 2020, section 3:

    loss = mean_source cross_entropy(softmax(z), y) + mu confusion(target logits / T)

The confusion of two classes is how often, over a batch, both have probability for the same sample. Softened by the
temperature T, sure predictions count more, and each class counts alike however often it is predicted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from torch.nn.functional import cross_entropy

from shiftcal.core.options import option
from shiftcal.core.processes import whole_batch
from shiftcal.data.batches import Batch
from shiftcal.functional.class_confusion import class_confusion_loss
from shiftcal.methods.base import TASK, Update
from shiftcal.methods.networks.classifiers import Classifier, classify_jointly
from shiftcal.methods.source_only import SourceOnly


@dataclass(frozen=True, kw_only=True)
class MinimumClassConfusion(SourceOnly):
    """Source cross-entropy, and little confusion between the classes on the target."""

    needs_target: ClassVar[bool] = True

    confusion_weight: float = option(1.0, "mu, of the confusion between classes", at_least=0)
    temperature: float = option(2.5, "T, by which the target's predictions are softened", above=0)

    def training_step(self, network: Classifier, batch: Batch) -> Iterator[Update]:
        """One step of cross-entropy and class confusion."""
        assert batch.target_inputs is not None
        source, target = classify_jointly(network, batch.source_inputs, batch.target_inputs)
        task_loss = cross_entropy(source.logits, batch.source_labels)
        confusion = class_confusion_loss(whole_batch(target.logits), self.temperature)
        loss = task_loss + self.confusion_weight * confusion
        yield Update(TASK, loss, {"task_loss": task_loss, "confusion_loss": confusion})
