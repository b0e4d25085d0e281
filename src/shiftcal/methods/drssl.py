"""Distributionally robust semi-supervised learning: FixMatch, with the robust prediction in place of the softmax.

Wang et al., "Learning Calibrated Uncertainties for Domain Shift: A Distributionally Robust Learning Approach",
IJCAI 2023, arXiv 2010.05784, section on semi-supervised learning:

    loss = that of `drl` on weak views of the source
         + w mean_target 1[ max p >= t ] cross_entropy( f(strong x), argmax p ),   t = threshold
    p    = f(weak x)

f is the predictive form of `drl` with the joint ratio, which is trained on weak views of both domains. This is the
paper's own form: `ratio_strength` with a number, such as 1.

With `ratio_strength="auto"` what is known of the target is found anew before each epoch after a short warm-up, by
the averaged network on the target as it is. A row is accepted in a step if it was chosen then, and if its weak view
still has the label of then:

    label      argmax_c f_c(x) q_c(x)^trust b_c
    accepted   g_label(x) >= least_confidence, g proportional to f b, the surest of each class first, and of none more
               than a portion of the rows that it would have if classes were as frequent as on the source

q, trust, b: `shiftcal.methods.shared.robust_labelling`. The mean of max f on the target is about the accuracy
there, so from a confidence of 0.5 on a label is more likely right than wrong, where FixMatch's 0.95 would accept
nearly everything; rows on which the clusters contradict the classifier come last. The portion grows, as in `drst`.
Labels that were chosen beforehand, with a fair number for each class, can't run into one class within a few steps,
as FixMatch's do under a strong shift. The loss of strong views is that of the plain softmax, as in `drl`.

It is tested on both domains, so caution should stay away from the source. Where R reaches its bound, inputs are
taken for nothing but source or target: tau of `shiftcal.target.caution` is P(target | x), stretched to go from 0
to 1 over the range of R; and what caution takes from source inputs all the same, the gain of that module gives back
to the source as a whole. The ratio has a network of its own, as in the paper: features of the task forget what tells
CIFAR-10 from STL-10. It learns slowly: R at its bound everywhere would say nothing of which target rows are the more
like the source.

Views, settings and what is ours in them: `shiftcal.methods.shared.consistency`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from shiftcal.core.options import option
from shiftcal.data.batches import Batch, PseudoLabels
from shiftcal.functional.consistency import consistency_loss, pseudo_label_record
from shiftcal.functional.predictive import robust_logits
from shiftcal.functional.self_training import fair_thresholds
from shiftcal.methods.base import TASK, EpochOutlook, Update
from shiftcal.methods.drl import RobustNetwork
from shiftcal.methods.networks.classifiers import frozen_statistics
from shiftcal.methods.shared.consistency import ConsistencySettings, accepted_labels, classify_views
from shiftcal.methods.shared.robust_labelling import RobustLabelling, share_findings, source_frequencies


@dataclass(frozen=True, kw_only=True)
class DistributionallyRobustSemiSupervised(ConsistencySettings, RobustLabelling):
    """DRSSL: pseudo-labels from weak views where the robust prediction is sure, for strong views."""

    pseudo_labels_join_source: ClassVar[bool] = False
    is_for_both_domains: ClassVar[bool] = True

    ratio_network: Literal["shared", "separate"] = option("separate", "a head on the task's features, or a network")
    ratio_learning_rate: float = option(1e-4, "step size of the ratio network", above=0)
    last_portion: float = option(0.8, "of each class to select in the last epoch", above=0, at_most=1)
    threshold: float = option(0.95, "least confidence with a ratio_strength that is a number", at_least=0, at_most=1)
    least_confidence: float = option(
        0.5, "the same with auto, where the mean confidence is about the accuracy", at_least=0, at_most=1
    )

    def likeness(self, domain_logit: Tensor) -> Tensor:
        """P(target | x), stretched so that it is 0 and 1 at the bounds of R."""
        least = 1 / (1 + self.ratio_bound)
        return (torch.sigmoid(-domain_logit) - least) / (1 - 2 * least)

    def choose_pseudo_labels(self, network: RobustNetwork, outlook: EpochOutlook) -> PseudoLabels | None:
        """With "auto", what the steps of the epoch may accept; None during the warm-up."""
        portion = self.portion(outlook)
        if portion is None or self.ratio_strength != "auto":
            return None
        labels = self.prepare_labels(network, outlook).argmax(dim=-1)
        share_findings(network, outlook)
        robust = torch.softmax(outlook.predict_target().logits.double() + network.class_balance.cpu(), dim=-1)
        confidence = robust.gather(-1, labels.unsqueeze(-1)).squeeze(-1)
        shares = source_frequencies(outlook, robust.shape[1])
        thresholds = fair_thresholds(confidence, labels, shares, portion).clamp_min(self.least_confidence)
        rows = (confidence >= thresholds[labels]).nonzero().squeeze(-1)
        return PseudoLabels(rows.numpy(), labels[rows].numpy())

    def training_step(self, network: RobustNetwork, batch: Batch) -> Iterator[Update]:
        """The ratio, then labels and pseudo-labels on views with the new ratio."""
        # Ratio and twin learn from weak views too: a ratio would soon know the rows of a small target by heart.
        labelled, weak, strong, batch = classify_views(network.task, batch)
        assert batch.target_inputs is not None
        yield from self.twin_updates(network, batch)
        yield self.ratio_update(network, batch, labelled.features.detach(), weak)
        with torch.no_grad(), frozen_statistics(network):
            source = self.robust_outputs(network, batch.source_inputs, labelled)
            target = self.robust_outputs(network, batch.target_inputs, weak)
            probabilities = torch.softmax(self.label_scores(network, batch.target_inputs, target), dim=-1)
        task_loss = self.task_loss(labelled.logits, batch, source.density_ratio.log())
        target_ratio = self.ratio_of_training(target.density_ratio.log())
        strong_logits = robust_logits(strong.logits, target_ratio, class_regularization=self.class_regularization)
        agreement_loss, kept = consistency_loss(probabilities, strong_logits, self._thresholds(batch, probabilities))
        yield Update(
            TASK,
            task_loss + self.unlabelled_weight * agreement_loss,
            {
                "task_loss": cross_entropy(source.logits, batch.source_labels),
                "consistency_loss": agreement_loss,
                **pseudo_label_record(probabilities, kept),
            },
            None if self.ratio_strength == "auto" else accepted_labels(batch, probabilities, kept),
        )

    def _thresholds(self, batch: Batch, probabilities: Tensor) -> float | Tensor:
        """The least confidence of each row (N,): with "auto" any will do for a label that is still the one chosen."""
        if self.ratio_strength != "auto":
            return self.threshold
        if batch.target_soft_labels is None:
            return torch.inf
        chosen, labels = batch.target_soft_labels.max(dim=-1)
        still_the_same = (chosen > 0) & (labels == probabilities.argmax(dim=-1))
        return torch.where(still_the_same, 0.0, torch.inf)
