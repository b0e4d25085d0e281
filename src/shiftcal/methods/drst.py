"""Distributionally robust self-training: each epoch is a new shift problem, labelled by the robust classifier itself.

Wang et al., "Learning Calibrated Uncertainties for Domain Shift: A Distributionally Robust Learning Approach",
IJCAI 2023, arXiv 2010.05784, section on unsupervised domain adaptation; class-balanced selection as of `cbst`.

    loss       that of `drl`, with selected target rows and their pseudo-labels y-hat in the source
    y-hat      argmax_c p_c / exp(-k_c), where that is at least 1
    p          as in `shiftcal.methods.robust_labelling`

The paper's own form has no clusters: `cluster_labels=False`, with `ratio_strength=1` and a `class_regularization`
above 0. Also ours, and off by default: soft labels, and weights for source rows by their likeness to the target.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from shiftcal.data.batches import Batch, PseudoLabels
from shiftcal.functional.self_training import select_class_balanced
from shiftcal.methods.base import EpochOutlook
from shiftcal.methods.drl import RobustNetwork
from shiftcal.methods.robust_labelling import RobustLabelling, share_findings
from shiftcal.methods.rounds import SelfTrainingRounds
from shiftcal.options import option
from shiftcal.processes import mean_over_batch


@dataclass(frozen=True, kw_only=True)
class DistributionallyRobustSelfTraining(SelfTrainingRounds, RobustLabelling):
    """DRST: self-training on the target rows that DRL is surest of, class by class."""

    soft_labels: bool = option(False, "train on p itself instead of its largest entry (needs ratio_strength auto)")
    ratio_weight: float = option(
        0.0, "source rows count by R to the power of minus this (needs ratio_strength auto)", at_least=0
    )

    def task_loss(self, logits: Tensor, batch: Batch, domain_logit: Tensor) -> Tensor:
        """As `drl`; with soft labels, and with weights of mean one that favour source rows like the target."""
        if self.ratio_strength != "auto" or not (self.soft_labels or self.ratio_weight):
            return super().task_loss(logits, batch, domain_logit)
        weights = torch.where(batch.is_pseudo, 1.0, torch.exp(-self.ratio_weight * domain_logit))
        losses = cross_entropy(logits, batch.soft_labels, reduction="none")
        return (losses * weights / mean_over_batch(weights)).mean()

    def choose_pseudo_labels(self, network: RobustNetwork, outlook: EpochOutlook) -> PseudoLabels | None:
        """None during the warm-up, then a growing portion of each class."""
        portion = self.portion(outlook)
        if portion is None:
            return None
        self.prepare_labels(network, outlook)
        share_findings(network, outlook)
        probabilities = torch.softmax(self.target_scores(network, outlook.evidence), dim=-1)
        rows, labels = select_class_balanced(probabilities, portion)
        soft_labels = probabilities[rows].float().numpy() if self.soft_labels else None
        return PseudoLabels(rows.numpy(), labels.numpy(), soft_labels)
