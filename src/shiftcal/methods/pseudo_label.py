"""Pseudo-label: the class that is predicted for an unlabelled row is taken for its label, with a growing weight.

Lee, "Pseudo-Label: The Simple and Efficient Semi-Supervised Learning Method for Deep Neural Networks", ICML 2013
Workshop on Challenges in Representation Learning, Eq. 15 and 16:

    loss = mean_source cross_entropy( softmax(z), y ) + alpha(t) mean_target cross_entropy( softmax(z), argmax z )

alpha(t) is 0 up to t_1, then grows evenly to its final value (the paper: 3) at t_2, and stays there. The labels are
those of the network as it stands, at every step; there is no threshold. The inputs are not changed, so images and
features are treated alike.

Ours: t_1 and t_2 are shares of the training (the paper: epochs 100 and 600), both domains pass in one batch (for
batch norm), as many target rows as source rows unless told otherwise (the paper: 256 for 32), the shared optimiser,
and no dropout but the backbone's own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from torch.nn.functional import cross_entropy

from shiftcal.core.options import option
from shiftcal.data.batches import Batch
from shiftcal.functional.ramps import linear_ramp
from shiftcal.methods.base import TASK, Update
from shiftcal.methods.networks.classifiers import Classifier, classify_jointly
from shiftcal.methods.source_only import SourceOnly

RAMP_START, RAMP_END = 0.1, 0.6


@dataclass(frozen=True, kw_only=True)
class PseudoLabelling(SourceOnly):
    """Cross-entropy on labels and, more and more, on the network's own predictions."""

    needs_target: ClassVar[bool] = True

    unlabelled_weight: float = option(3.0, "alpha at the end, of the loss on the target", at_least=0)
    unlabelled_multiple: int = option(1, "target rows for each source row of a batch", at_least=1, at_most=100)

    @property
    def target_multiple(self) -> int:
        """As the option says."""
        return self.unlabelled_multiple

    def training_step(self, network: Classifier, batch: Batch) -> Iterator[Update]:
        """One step on labels and pseudo-labels."""
        assert batch.target_inputs is not None
        source, target = classify_jointly(network, batch.source_inputs, batch.target_inputs)
        confidence, labels = target.logits.detach().softmax(dim=-1).max(dim=-1)
        task_loss = cross_entropy(source.logits, batch.source_labels)
        pseudo_loss = cross_entropy(target.logits, labels)
        weight = self.unlabelled_weight * linear_ramp(batch.progress, RAMP_START, RAMP_END)
        yield Update(
            TASK,
            task_loss + weight * pseudo_loss,
            {"task_loss": task_loss, "pseudo_label_loss": pseudo_loss, "pseudo_confidence": confidence.mean()},
        )
