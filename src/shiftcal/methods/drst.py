"""Distributionally robust self-training: each epoch is a new shift problem, labelled by the robust classifier itself.

Wang et al., "Learning Calibrated Uncertainties for Domain Shift: A Distributionally Robust Learning Approach",
IJCAI 2023, arXiv 2010.05784, section on unsupervised domain adaptation; class-balanced selection as of `cbst`.

    loss    that of `drl`, with selected target rows and their pseudo-labels y-hat in the source
    y-hat   argmax_c p_c / exp(-k_c), where that is at least 1

The paper's own form is `preset=paper`: p is the prediction f of `drl` as published, whose ratio is learned along with
the task, and selected rows are source to the ratio too. `preset=authors` has the step sizes, portions and batches of
the authors' code for VisDA-2017.
The default is ours: the task is trained at R = 1, the ratio is cross-fitted (`shiftcal.target.shifted_part`) and says
which rows are labelled, p is that of `shiftcal.methods.shared.label_model`, and class confusion as in `mcc` has a
part:

    loss  + confusion_weight accuracy confusion(target logits / 2.5)
    y-hat only where P(new | x) is at least 1/2, and of a portion that is less where less is believed

Little confusion is worth something as far as the classifier is right; where it is not, it ruins a classifier. So it
weighs as much as the accuracy that is expected, where a shift changes what the classifier says. P(new | x) is by a
density ratio that gives each row its ratio by a fit without it: of a target of which a part has shifted a classifier
is surest of the other part, and would label little else. A ratio that learned beside the task could be replaced by a
constant without loss, so there is none unless it acts (`ratio_strength` above 0). How sure predictions may be is not
settled here: put the calibrator `target-scaling` behind (the composition `adapted`), which goes by the same ratio.
Selected images are shown in strong views, as those of `cbst` and its kin are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor

from shiftcal.core.options import option
from shiftcal.core.processes import mean_over_batch, whole_batch
from shiftcal.data.batches import Batch, PseudoLabels
from shiftcal.functional.class_confusion import class_confusion_loss
from shiftcal.functional.self_training import select_class_balanced
from shiftcal.methods.base import TrainingView, Update
from shiftcal.methods.drl import AS_PUBLISHED, AUTHORS_RATIO
from shiftcal.methods.networks.classifiers import classify_jointly
from shiftcal.methods.shared.rounds import SelfTrainingRounds
from shiftcal.methods.shared.self_training_network import SelfTrainingNetwork, TargetAwareLabelling
from shiftcal.methods.shared.source_reference import with_reference

# P(new | x) from which on a row of the target is taken to be of the part that has shifted.
_HAS_SHIFTED = 0.5
# As published for `mcc`.
_CONFUSION_TEMPERATURE = 2.5


@dataclass(frozen=True, kw_only=True)
class DistributionallyRobustSelfTraining(SelfTrainingRounds, TargetAwareLabelling):
    """DRST: self-training on the target rows that a robust classifier is surest of, class by class."""

    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "paper": {**AS_PUBLISHED, "class_regularization": 1e-3, "labelling": "confidence"},
        "authors": {
            **AS_PUBLISHED,
            **AUTHORS_RATIO,
            "labelling": "confidence",
            "first_portion": 0.5,
            "last_portion": 0.5,
            "pseudo_share": 0.74,
        },
    }

    ratio_bound: float = option(10.0, "R stays within 1/bound and bound at strength 1", above=1)
    confusion_weight: float = option(
        1.0, "of class confusion on the target, times the accuracy that is expected there", at_least=0
    )
    shifted_rows_only: bool = option(
        True, "label only rows that have shifted, by a cross-fitted density ratio, where there is a label model"
    )

    def choose_pseudo_labels(self, network: SelfTrainingNetwork, view: TrainingView) -> PseudoLabels | None:
        """None during the warm-up, then a growing portion of each class."""
        portion = self.portion(view)
        if portion is None:
            return None
        if self.has_label_model:
            scores = network.label_scores(view, self.robust_logits)[0]
            portion *= float(network.labels.label_trust)
        else:
            scores = view.target_outputs.logits.double()
        # All of them in the paper's form, which fits no label model.
        least = _HAS_SHIFTED if self.shifted_rows_only else 0.0
        candidates = (network.labels.shifted_probability.cpu() >= least).nonzero().squeeze(-1)
        if len(candidates) == 0:
            return None
        probabilities = torch.softmax(scores[candidates], dim=-1)
        rows, labels = select_class_balanced(probabilities, portion)
        confidence = float(probabilities[rows, labels].mean())
        return PseudoLabels(candidates[rows].numpy(), labels.numpy(), confidence=confidence)

    def training_step(self, network: SelfTrainingNetwork, batch: Batch) -> Iterator[Update]:
        """As `drl`, with strong views of pseudo-labelled images, which the reference does not see, and confusion."""
        # In the paper's form they are source to the ratio too, which would learn to tell views from pictures.
        shown = self.in_strong_views(batch, network.task.backbone) if self.has_label_model else batch
        if self.confusion_weight and network.labels.confusion_trust:
            update = self._update_with_confusion(network, shown)
        else:
            (update,) = super().training_step(network, shown)
        yield with_reference(update, network.reference, batch)

    def _update_with_confusion(self, network: SelfTrainingNetwork, batch: Batch) -> Update:
        assert batch.target_inputs is not None
        source, target = classify_jointly(network.task, batch.source_inputs, batch.target_inputs)
        update = self.joint_update(network, batch, source.logits, source, target)
        confusion = class_confusion_loss(whole_batch(target.logits), _CONFUSION_TEMPERATURE)
        loss = update.loss + self.confusion_weight * network.labels.confusion_trust * confusion
        return replace(update, loss=loss, logged={**update.logged, "confusion_loss": confusion})

    def ratio_weights(self, batch: Batch) -> Tensor | None:
        """R stays that of the source itself: pseudo-labelled rows are no part of it but in the paper's form."""
        if not self.has_label_model or not batch.is_pseudo.any():
            return None
        assert batch.target_inputs is not None
        is_source = (~batch.is_pseudo).float()
        of_source = is_source / mean_over_batch(is_source).clamp_min(1 / len(is_source))
        return torch.cat([of_source, of_source.new_ones(len(batch.target_inputs))])
