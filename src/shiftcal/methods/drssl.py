"""Distributionally robust semi-supervised learning: FixMatch, with the robust prediction in place of the softmax.

Wang et al., "Learning Calibrated Uncertainties for Domain Shift: A Distributionally Robust Learning Approach",
IJCAI 2023, arXiv 2010.05784, section on semi-supervised learning:

    loss = that of `drl` on weak views of the source
         + w mean_target 1[ max p >= t ] cross_entropy( f(strong x), argmax p ),   t = threshold
    p    = f(weak x)

f is the predictive form of `drl` with the joint ratio, which is trained on weak views of both domains. This is the
paper's own form: `preset=paper`, and `preset=authors` with the ratio's step size of the authors' code.

By default, as in `drst`, R = 1 in f and no ratio is learned beside the task; a cross-fitted one says which rows have
shifted. Labels are chosen before each epoch after a short warm-up, by the averaged network on the target as it is,
and a row is accepted in a step if its weak view still has the label of then:

    label      argmax_c f_c(x) q_c(x)^(0.3 trust) b_c
    accepted   g_label(x) >= min(threshold, twice the mean of max g), g proportional to f b, the surest of each class
               first, and of none more than a portion of the rows that it would have if classes were as frequent as
               on the source

f, q, trust and b: `shiftcal.methods.shared.label_model`. The mean of max f on the target is about the accuracy
there, so from a confidence of 0.5 on a label is more likely right than wrong, where FixMatch's 0.95 would accept
nearly everything; rows on which the clusters contradict the classifier come last. The portion grows, as in `drst`.
Labels that were chosen beforehand, with a fair number for each class, can't run into one class within a few steps,
as FixMatch's do under a strong shift.

Where a ratio is learned (`ratio_strength` above 0) it is a head on the task's features; a network of its own, as in
the paper, took a quarter more time and labels were no better for it. It learns slowly: R at its bound everywhere
would say nothing of which target rows are the more like the source. Views, settings and what is ours in them:
`shiftcal.methods.shared.consistency`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor

from shiftcal.core.options import option
from shiftcal.data.batches import Batch, PseudoLabels
from shiftcal.functional.consistency import consistency_loss, pseudo_label_record
from shiftcal.functional.self_training import fair_thresholds
from shiftcal.methods.base import TrainingView, Update
from shiftcal.methods.drl import AS_PUBLISHED
from shiftcal.methods.networks.classifiers import DomainOutputs, frozen_statistics
from shiftcal.methods.shared.consistency import ConsistencySettings, accepted_labels, classify_views
from shiftcal.methods.shared.self_training_network import SelfTrainingNetwork, TargetAwareLabelling
from shiftcal.methods.shared.source_reference import with_reference
from shiftcal.target.evidence import ObservedRows


@dataclass(frozen=True, kw_only=True)
class DistributionallyRobustSemiSupervised(ConsistencySettings, TargetAwareLabelling):
    """DRSSL: pseudo-labels from weak views where the robust prediction is sure, for strong views."""

    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "paper": {**AS_PUBLISHED, "labelling": "confidence"},
        "authors": {
            **AS_PUBLISHED,
            "ratio_optimizer": "sgd",
            "ratio_learning_rate": 3e-3,
            "labelling": "confidence",
        },
    }
    pseudo_labels_join_source: ClassVar[bool] = False
    # At an expected accuracy of .2 hardly a row is as sure as 0.5 by the scaled prediction alone.
    labels_by_threshold: ClassVar[bool] = True

    ratio_bound: float = option(100.0, "R stays within 1/bound and bound at strength 1", above=1)
    ratio_learning_rate: float = option(1e-4, "step size of the ratio network", above=0)
    last_portion: float = option(0.8, "of each class to select in the last epoch", above=0, at_most=1)
    threshold: float | None = option(
        None,
        "least confidence of a label; None: 0.5, or FixMatch's 0.95 where labelling is by confidence",
        at_least=0,
        at_most=1,
    )

    @property
    def least_confidence(self) -> float:
        """The threshold, or its default."""
        if self.threshold is not None:
            return self.threshold
        return 0.5 if self.has_label_model else 0.95

    def choose_pseudo_labels(self, network: SelfTrainingNetwork, view: TrainingView) -> PseudoLabels | None:
        """What the steps of the epoch may accept; None during the warm-up, and if batches are labelled one by one."""
        portion = self.portion(view)
        if portion is None or not self.has_label_model:
            return None
        scores, robust = network.label_scores(view, self.robust_logits)
        labels = scores.argmax(dim=-1)
        confidence = robust.exp().gather(-1, labels.unsqueeze(-1)).squeeze(-1)
        shares = view.source_labels.bincount(minlength=scores.shape[1]) / len(view.source_labels)
        # Where little accuracy is expected, hardly a row is as sure as that: twice the mean is sure enough then.
        least = min(self.least_confidence, 2 * float(robust.exp().amax(dim=-1).mean()))
        thresholds = fair_thresholds(confidence, labels, shares, portion).clamp_min(least)
        rows = (confidence >= thresholds[labels]).nonzero().squeeze(-1)
        return PseudoLabels(rows.numpy(), labels[rows].numpy(), confidence=float(confidence[rows].mean()))

    def training_step(self, network: SelfTrainingNetwork, batch: Batch) -> Iterator[Update]:
        """Labels and pseudo-labels on views, and a ratio that is learned, as it stands."""
        assert batch.target_inputs is not None
        num_rows = len(batch.target_inputs)
        may_be_accepted = self._may_be_accepted(batch)
        seen_weakly, for_ratio = may_be_accepted, torch.zeros_like(may_be_accepted)
        if network.ratio is not None:
            # As many as of the source; every so many, they are the same however many processes share a batch.
            for_ratio = torch.arange(num_rows, device=batch.target_inputs.device) % self.target_multiple == 0
            seen_weakly = may_be_accepted | for_ratio
        # Ratio and reference learn from weak views too: a ratio would soon know the rows of a small target by heart.
        labelled, weak, strong, batch = classify_views(
            network.task, batch, weak_rows=seen_weakly, strong_rows=may_be_accepted
        )
        for_ratio, may_be_accepted = for_ratio[seen_weakly], may_be_accepted[seen_weakly]
        update = self.joint_update(
            network, batch.with_target_rows(for_ratio), labelled.logits, labelled, weak.taken(for_ratio)
        )
        weak, batch = weak.taken(may_be_accepted), batch.with_target_rows(may_be_accepted)
        assert batch.target_inputs is not None
        with torch.no_grad(), frozen_statistics(network):
            log_ratio = network.acting_log_ratio(batch.target_inputs, weak)
            probabilities = torch.softmax(self._label_logits(network, batch, weak, log_ratio), dim=-1)
        agreement_loss, kept = consistency_loss(
            probabilities,
            self.robust_logits(strong.logits, log_ratio),
            self._thresholds(batch, probabilities),
            num_rows,
        )
        update = replace(
            update,
            loss=update.loss + self.unlabelled_weight * agreement_loss,
            logged={
                **update.logged,
                "consistency_loss": agreement_loss,
                **pseudo_label_record(probabilities, kept, num_rows),
            },
            accepted=None if self.has_label_model else accepted_labels(batch, probabilities, kept),
        )
        yield with_reference(update, network.reference, batch)

    def _may_be_accepted(self, batch: Batch) -> Tensor:
        """Which target rows (N,) of a batch have a label already, or may get one."""
        assert batch.target_rows is not None
        if not self.has_label_model:
            return torch.ones_like(batch.target_rows, dtype=torch.bool)
        if batch.target_soft_labels is None:
            return torch.zeros_like(batch.target_rows, dtype=torch.bool)
        return batch.target_soft_labels.any(dim=-1)

    def _label_logits(
        self, network: SelfTrainingNetwork, batch: Batch, weak: DomainOutputs, log_ratio: Tensor
    ) -> Tensor:
        robust = self.robust_logits(weak.logits, log_ratio)
        if not self.has_label_model:
            return robust
        assert batch.target_inputs is not None
        shifted = network.labels.shifted_probability[batch.target_rows]
        rows = ObservedRows(robust, shifted, network.structure(batch.target_inputs, weak.features))
        return network.labels.model.log_scores(rows)

    def _thresholds(self, batch: Batch, probabilities: Tensor) -> float | Tensor:
        """The least confidence of each row (N,): any will do for a label that is still the one chosen beforehand."""
        if not self.has_label_model:
            return self.least_confidence
        if batch.target_soft_labels is None:
            return torch.inf
        chosen, labels = batch.target_soft_labels.max(dim=-1)
        still_the_same = (chosen > 0) & (labels == probabilities.argmax(dim=-1))
        return torch.where(still_the_same, 0.0, torch.inf)
