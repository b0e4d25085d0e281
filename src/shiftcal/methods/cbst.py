"""Class-balanced self-training: the target rows that the model is surest of, class by class, join the source.

Zou, Yu, Kumar, Wang, "Unsupervised Domain Adaptation for Semantic Segmentation via Class-Balanced Self-Training",
ECCV 2018: class-balanced self-training and its choice of k_c.

    loss       mean_{source and selected} cross_entropy(softmax(z), y), with y-hat for y on selected target rows
    y-hat      argmax_c p_c / exp(-k_c), where that is at least 1; other target rows are left out
    exp(-k_c)  the lowest confidence among the surest portion of the target rows that are predicted as class c

The paper selects 20 % at first and 5 % more in each of its rounds, up to 50 %. Here a round is an epoch, the portion
grows evenly over all of them, and the model that gives the first labels is trained in the first epochs of the same
run, so that all methods have the same number of steps: these are ours. So are the strong views that selected images
are shown in, which `drst` has too: methods are compared on equal terms.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from shiftcal.data.batches import Batch, PseudoLabels
from shiftcal.functional.self_training import select_class_balanced
from shiftcal.methods.base import Outputs, TrainingView, Update
from shiftcal.methods.networks.classifiers import Classifier
from shiftcal.methods.shared.rounds import SelfTrainingRounds
from shiftcal.methods.source_only import SourceOnly


@dataclass(frozen=True, kw_only=True)
class ClassBalancedSelfTraining(SelfTrainingRounds, SourceOnly):
    """Pseudo-labels for the most confident part of each class, chosen anew for each epoch."""

    def training_step(self, network: Classifier, batch: Batch) -> Iterator[Update]:
        """One step of cross-entropy."""
        yield from super().training_step(network, self.in_strong_views(batch, network.backbone))

    def choose_pseudo_labels(self, network: Classifier, view: TrainingView) -> PseudoLabels | None:
        """None during the warm-up, then a growing portion of each class."""
        portion = self.portion(view)
        return None if portion is None else self.label(network, view.target_outputs, portion)

    def label(self, network: Classifier, outputs: Outputs, portion: float) -> PseudoLabels:
        """Select and label rows of the target."""
        del network
        rows, labels = select_class_balanced(torch.softmax(outputs.logits.double(), dim=-1), portion)
        return PseudoLabels(rows.numpy(), labels.numpy())
