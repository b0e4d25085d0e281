"""Distributionally robust semi-supervised learning: FixMatch, with the robust prediction in place of the softmax.

Wang et al., "Learning Calibrated Uncertainties for Domain Shift: A Distributionally Robust Learning Approach",
IJCAI 2023, arXiv 2010.05784, section on semi-supervised learning:

    loss = that of `drl` on weak views of the source
         + w mean_target 1[ max p >= threshold ] cross_entropy( f(strong x), argmax p )
    p    proportional to f_c(weak x) q_c(weak x)^trust

f is the predictive form of `drl` with the joint ratio, which is trained on weak views of both domains. With
`ratio_strength="auto"` its strength is found anew before each epoch, so that the confidence in pseudo-labels is
about as high as the accuracy on the target, and the loss of strong views is that of the plain softmax, as in `drl`.
q is the share of each class among the clusters of the target, as in `drst`. The paper's own form has neither: it is
`ratio_strength=1` with `cluster_labels=False`.

Views, settings and what is ours in them: `shiftcal.methods.consistency`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from shiftcal.data.batches import Batch, PseudoLabels
from shiftcal.functional.caution import VOTE
from shiftcal.functional.clustering import cluster_log_posteriors
from shiftcal.functional.consistency import consistency_loss, pseudo_label_record
from shiftcal.functional.predictive import robust_logits
from shiftcal.methods.base import TASK, EpochOutlook, Outputs, Update
from shiftcal.methods.consistency import ConsistencySettings, accepted_labels, classify_views
from shiftcal.methods.drl import DistributionallyRobust, RobustNetwork
from shiftcal.models.networks import frozen_statistics
from shiftcal.options import option


@dataclass(frozen=True, kw_only=True)
class DistributionallyRobustSemiSupervised(ConsistencySettings, DistributionallyRobust):
    """DRSSL: pseudo-labels from weak views where the robust prediction is sure, for strong views."""

    threshold: float = option(0.95, "least robust confidence of a pseudo-label", at_least=0, at_most=1)
    cluster_labels: bool = option(
        True, "let the target's clusters take part in labelling (needs ratio_strength auto)"
    )

    def choose_pseudo_labels(self, network: RobustNetwork, outlook: EpochOutlook) -> PseudoLabels | None:
        """None: they are chosen batch by batch. What changes between epochs is the strength."""
        trained = outlook.trained_network
        assert isinstance(trained, RobustNetwork)
        if outlook.epoch > 0 and self.find_strength(network, outlook.evidence) and trained is not network:
            for name in ("centre", "centroids", "vote", "caution"):
                getattr(trained, name).copy_(getattr(network, name))
        return None

    def training_step(self, network: RobustNetwork, batch: Batch) -> Iterator[Update]:
        """The ratio on weak views, then labels and pseudo-labels with the new ratio."""
        assert batch.target_inputs is not None
        labelled, weak, strong = classify_views(network.task, batch)
        yield self.ratio_update(network, batch, labelled.features.detach(), weak)
        with torch.no_grad(), frozen_statistics(network):
            source = self.robust_outputs(network, batch.source_inputs, labelled)
            target = self.robust_outputs(network, batch.target_inputs, weak)
            probabilities = torch.softmax(self._label_scores(network, batch.target_inputs, target), dim=-1)
        source_ratio, target_ratio = (self.ratio_of_training(rows.density_ratio.log()) for rows in (source, target))
        task_loss = self.task_loss(labelled.logits, batch.source_labels, source_ratio)
        strong_logits = robust_logits(strong.logits, target_ratio, class_regularization=self.class_regularization)
        agreement_loss, kept = consistency_loss(probabilities, strong_logits, self.threshold)
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

    def _label_scores(self, network: RobustNetwork, inputs: Tensor, outputs: Outputs) -> Tensor:
        """log p (N, C) of weak views, but for a constant of each row."""
        scores = torch.log_softmax(outputs.logits, dim=-1)
        if self.cluster_labels and self.ratio_strength == "auto":
            representation = network.task.backbone.representation(inputs, outputs.features)
            scores = scores + network.vote / VOTE * cluster_log_posteriors(representation, network.clusters)
        return scores
