"""Distributionally robust semi-supervised learning: FixMatch, with the robust prediction in place of the softmax.

Wang et al., "Learning Calibrated Uncertainties for Domain Shift: A Distributionally Robust Learning Approach",
IJCAI 2023, arXiv 2010.05784, section on semi-supervised learning:

    loss = that of `drl` on weak views of the source
         + w mean_target 1[ max p >= t ] cross_entropy( f(strong x), argmax p ),   t = threshold
    p    = f(weak x)

f is the predictive form of `drl` with the joint ratio, which is trained on weak views of both domains. This is the
paper's own form: `ratio_strength` with a number, such as 1.

With `ratio_strength="auto"` what is known of the target is found anew before each epoch after a short warm-up, and

    p    proportional to (f_c(weak x) q_c(weak x)^trust)^s
    t_c  = min( threshold, the lowest confidence among the surest portion of the rows that are predicted as c )

q and trust are of `shiftcal.methods.robust_labelling`, and s makes the mean of max p over the
target the accuracy that is to be expected there: a threshold of 0.95 then means what it says, where FixMatch's own
confidence would accept nearly everything. Under a strong shift hardly anything is as sure as that. So the surest
portion of each class is accepted in any case, and it grows, as in `drst`; this also keeps pseudo-labels from running
into one class. The loss of strong views is that of the plain softmax, as in `drl`.

Views, settings and what is ours in them: `shiftcal.methods.consistency`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from shiftcal.data.batches import Batch, PseudoLabels
from shiftcal.functional.consistency import consistency_loss, power_for_confidence, pseudo_label_record
from shiftcal.functional.predictive import robust_logits
from shiftcal.functional.self_training import class_thresholds
from shiftcal.methods.base import TASK, EpochOutlook, Update
from shiftcal.methods.consistency import ConsistencySettings, accepted_labels, classify_views
from shiftcal.methods.drl import RobustNetwork
from shiftcal.methods.robust_labelling import RobustLabelling, share_findings
from shiftcal.models.networks import Blueprint, frozen_statistics
from shiftcal.options import option


class LabellingNetwork(RobustNetwork):
    """Knows how sharp its labels of the target may be, and how sure it must be of each class."""

    sharpness: Tensor
    thresholds: Tensor

    def __init__(self, blueprint: Blueprint, ratio_hidden: int, *, separate: bool) -> None:
        super().__init__(blueprint, ratio_hidden, separate=separate)
        self.register_buffer("sharpness", torch.ones(()))
        self.register_buffer("thresholds", torch.full((blueprint.num_classes,), torch.inf))


@dataclass(frozen=True, kw_only=True)
class DistributionallyRobustSemiSupervised(ConsistencySettings, RobustLabelling):
    """DRSSL: pseudo-labels from weak views where the robust prediction is sure, for strong views."""

    warmup_share: float = option(0.1, "share of the epochs on the source alone", at_least=0, below=1)
    threshold: float = option(0.95, "robust confidence that is always enough", at_least=0, at_most=1)

    def build(self, blueprint: Blueprint) -> LabellingNetwork:
        """A classifier and a ratio, with what labelling needs to know."""
        network = LabellingNetwork(blueprint, self.ratio_hidden, separate=self.ratio_network == "separate")
        if self.ratio_strength != "auto":
            network.thresholds.fill_(self.threshold)
        return network

    def choose_pseudo_labels(self, network: RobustNetwork, outlook: EpochOutlook) -> PseudoLabels | None:
        """None: they are chosen batch by batch. What changes between epochs is how sure to be of them."""
        assert isinstance(network, LabellingNetwork)
        portion = self.portion(outlook)
        findings = {} if portion is None else self.prepare_labels(network, outlook)
        if portion is not None and findings:
            scores = self.target_scores(network, outlook.evidence)
            network.sharpness.fill_(power_for_confidence(scores, findings["estimated_accuracy"]))
            confidence, predicted = torch.softmax(network.sharpness * scores, dim=-1).max(dim=-1)
            surest = class_thresholds(confidence, predicted, scores.shape[1], portion)
            network.thresholds.copy_(surest.clamp_max(self.threshold))
            share_findings(network, outlook)
        return None

    def training_step(self, network: RobustNetwork, batch: Batch) -> Iterator[Update]:
        """The ratio on weak views, then labels and pseudo-labels with the new ratio."""
        assert isinstance(network, LabellingNetwork)
        assert batch.target_inputs is not None
        labelled, weak, strong = classify_views(network.task, batch)
        yield self.ratio_update(network, batch, labelled.features.detach(), weak)
        with torch.no_grad(), frozen_statistics(network):
            source = self.robust_outputs(network, batch.source_inputs, labelled)
            target = self.robust_outputs(network, batch.target_inputs, weak)
            scores = self.label_scores(network, batch.target_inputs, target)
            probabilities = torch.softmax(network.sharpness * scores, dim=-1)
        task_loss = self.task_loss(labelled.logits, batch, source.density_ratio.log())
        target_ratio = self.ratio_of_training(target.density_ratio.log())
        strong_logits = robust_logits(strong.logits, target_ratio, class_regularization=self.class_regularization)
        thresholds = network.thresholds[probabilities.argmax(dim=-1)]
        agreement_loss, kept = consistency_loss(probabilities, strong_logits, thresholds)
        yield Update(
            TASK,
            task_loss + self.unlabelled_weight * agreement_loss,
            {
                "task_loss": cross_entropy(source.logits, batch.source_labels),
                "consistency_loss": agreement_loss,
                **pseudo_label_record(probabilities, kept),
            },
            accepted_labels(batch, probabilities, kept),
        )
