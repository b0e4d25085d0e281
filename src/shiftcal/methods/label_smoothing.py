"""Label smoothing: cross-entropy with labels that leave some probability to every class.

Szegedy et al., "Rethinking the Inception Architecture for Computer Vision", CVPR 2016, section 7; its effect on
calibration: Mueller, Kornblith, Hinton, "When Does Label Smoothing Help?", NeurIPS 2019.

    loss = mean_source cross_entropy( (1 - s) 1[y] + s / C, softmax(z) )
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from torch.nn.functional import cross_entropy

from shiftcal.core.options import option
from shiftcal.data.batches import Batch
from shiftcal.methods.base import TASK, Update
from shiftcal.methods.networks.classifiers import Classifier
from shiftcal.methods.source_only import SourceOnly


@dataclass(frozen=True, kw_only=True)
class LabelSmoothing(SourceOnly):
    """Cross-entropy with smoothed source labels."""

    smoothing: float = option(0.1, "weight of the uniform distribution", at_least=0, below=1)

    def training_step(self, network: Classifier, batch: Batch) -> Iterator[Update]:
        """One step of cross-entropy with smoothed labels."""
        logits, _ = network(batch.source_inputs)
        loss = cross_entropy(logits, batch.source_labels, label_smoothing=self.smoothing)
        yield Update(TASK, loss, {"task_loss": loss})
