"""What `drst` and `drssl` share: labels for the target by the robust prediction and the target's own clusters.

    p  proportional to f_c(x) q_c(x)^trust b_c

f is the predictive form of `drl`, found anew before each epoch. q is the share of each class among the clusters of
the target at x, and trust says how far they are believed (`shiftcal.target.caution`): where classes form no
clusters or nothing was shifted, p is f. The clusters know of the target's own structure, which the source could not
teach the classifier; rows on which the two differ are labelled by whichever is surer. That is ours, not the paper's.
The structure must be the data's own: clusters of features that the network learns along with its pseudo-labels
confirm whatever these say.

b aligns classes (Berthelot et al., ICLR 2022, section 3.2): the frequency of each on the source by the mean of p
without b on the target, to the power of how far the shift changes what the classifier says. A shift makes some
classes attract the rows of others, and self-training on that drives a network into a few of them. Where the shift is
one of frequencies alone, the classifier says of each class what it said on the source, and b is 1. So it is where
too few source rows are held out to tell.

A classifier that was taught on the target agrees with its clusters more often than it is right. The accuracy to be
expected is therefore the mean of two estimates, one from before it was taught and one from now. And how far the shift
changes what the classifier says is a question for the time before.

Features of images are learned along with the labels. So with "auto" a twin of the classifier learns from the source
rows of each batch alone. It labels and predicts nothing itself: the accuracy to be expected, and with it the caution,
is judged in the clusters of its features, and as far as these are trusted the time before has no say.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from shiftcal.core.options import option
from shiftcal.data.batches import Batch
from shiftcal.functional.consistency import log_alignment
from shiftcal.methods.base import EpochOutlook, Evidence, OptimizerPlan, Outputs, Update
from shiftcal.methods.drl import DistributionallyRobust, RobustNetwork
from shiftcal.methods.networks.classifiers import Blueprint, Classifier, frozen_statistics
from shiftcal.methods.shared.rounds import GrowingRounds
from shiftcal.target.caution import FEWEST_HELD_OUT, VOTE, degree_of_shift
from shiftcal.target.clusters import cluster_log_posteriors

TWIN = "twin"


@dataclass(frozen=True, kw_only=True)
class RobustLabelling(GrowingRounds, DistributionallyRobust):
    """DRL that labels rows of the target."""

    cluster_labels: bool | Literal["auto"] = option(
        "auto", "let the target's clusters take part in labelling; auto: unless the network learns what is clustered"
    )
    align_classes: bool = option(
        True, "label as if classes were as frequent as on the source, as far as there is a shift (with auto)"
    )
    twin: bool = option(
        True, "train a second network on the source alone, to judge the accuracy on images (with ratio_strength auto)"
    )

    def build(self, blueprint: Blueprint) -> RobustNetwork:
        """As `drl`, and a twin for images."""
        network = super().build(blueprint)
        needs_twin = self.twin and self.ratio_strength == "auto" and network.task.backbone.takes_images
        if needs_twin and not blueprint.for_prediction:
            clean = replace(blueprint, initial_weights=None) if blueprint.initial_weights_know_target else blueprint
            network.twin = Classifier(clean)
        return network

    def optimizers(self, network: RobustNetwork) -> dict[str, OptimizerPlan]:
        """As `drl`; the twin is trained like the task network."""
        plans = super().optimizers(network)
        if network.twin is not None:
            plans[TWIN] = self.optimizer_plan(network.twin.parameters())
        return plans

    def twin_updates(self, network: RobustNetwork, batch: Batch) -> Iterator[Update]:
        """A step of the twin, where there is one, on the rows of a batch that are the source's own."""
        if network.twin is not None:
            is_source = ~batch.is_pseudo
            # Of a single row there are no batch statistics.
            few = is_source.sum() < 2
            with frozen_statistics(network.twin) if few else nullcontext():
                logits, _ = network.twin(batch.source_inputs[is_source])
            loss = cross_entropy(logits, batch.source_labels[is_source])
            yield Update(TWIN, loss, {"twin_loss": loss})

    def conclude(self, network: RobustNetwork, evidence: Evidence) -> dict[str, float]:
        """As `drl`; then the twin has served."""
        findings = super().conclude(network, evidence)
        network.twin = None
        return findings

    def by_clusters(self, network: RobustNetwork) -> bool:
        """Whether clusters take part: never with a ratio_strength that is a number."""
        if self.ratio_strength != "auto":
            return False
        return not network.task.backbone.takes_images if self.cluster_labels == "auto" else self.cluster_labels

    def label_scores(
        self, network: RobustNetwork, inputs: Tensor, outputs: Outputs, weight: Tensor | float = 1.0
    ) -> Tensor:
        """log p (N, C) of the outputs of `drl`, each row up to a constant; `weight` is that of q and b."""
        scores = torch.log_softmax(outputs.logits, dim=-1) + weight * network.class_balance
        if not self.by_clusters(network):
            return scores
        representation = network.task.backbone.representation(inputs, outputs.features)
        trust = network.vote / VOTE
        return scores + weight * trust * cluster_log_posteriors(representation, network.clusters)

    def target_scores(self, network: RobustNetwork, evidence: Evidence) -> Tensor:
        """The same for all rows of the target, in double precision."""
        assert evidence.target is not None

        def score(inputs: Tensor) -> tuple[Tensor]:
            return (self.label_scores(network, inputs, DistributionallyRobust.predict(self, network, inputs)),)

        (scores,) = evidence.observe(score, evidence.target.inputs)
        return scores.double()

    def prepare_labels(self, network: RobustNetwork, outlook: EpochOutlook) -> Tensor:
        """Find the strength before an epoch with pseudo-labels, and log p (N, C) of the target.

        What was expected before the first such epoch is remembered.
        """
        findings = self.find_strength(network, outlook.evidence)
        if findings and not network.untaught.any():
            known = [findings[name] for name in ("estimated_accuracy", "separation")]
            network.untaught.copy_(torch.tensor(known))
        network.class_balance.zero_()
        scores = self.target_scores(network, outlook.evidence)
        held_out = outlook.evidence.held_out
        if findings and self.align_classes and held_out is not None and len(held_out) >= FEWEST_HELD_OUT:
            found = torch.softmax(scores, dim=-1).mean(dim=0)
            wanted = source_frequencies(outlook, len(found))
            balance = degree_of_shift(findings["separation"]) * log_alignment(wanted, found)
            network.class_balance.copy_(balance)
            scores = scores + balance
        return scores


def source_frequencies(outlook: EpochOutlook, num_classes: int) -> Tensor:
    """Share of each class (C,) among the source rows."""
    return outlook.source_labels.bincount(minlength=num_classes) / len(outlook.source_labels)


def share_findings(network: RobustNetwork, outlook: EpochOutlook) -> None:
    """Give what was found to the network that is trained, where the one that predicts is its moving average."""
    if outlook.trained_network is not network:
        for name, value in network.named_buffers(recurse=False):
            outlook.trained_network.get_buffer(name).copy_(value)
