"""Distributionally robust self-training: each epoch is a new shift problem, labelled by the robust classifier itself.

Wang et al., "Learning Calibrated Uncertainties for Domain Shift: A Distributionally Robust Learning Approach",
IJCAI 2023, arXiv 2010.05784, section on unsupervised domain adaptation; class-balanced selection as of `cbst`.

    loss       that of `drl`, with selected target rows and their pseudo-labels y-hat in the source
    y-hat      argmax_c p_c / exp(-k_c), where that is at least 1
    p          proportional to f_c(x) q_c(x)^trust

f is the predictive form of `drl`, found anew before each epoch. q is the share of each class among the clusters of
the target at x, and trust says how far they are believed (`shiftcal.functional.caution`): where classes form no
clusters or nothing was shifted, p is f. The clusters know of the target's own structure, which the source could not
teach the classifier; rows on which the two differ are labelled by whichever is surer. That is ours. The paper's own
form has no clusters: `cluster_labels=False`, with `ratio_strength=1` and a `class_regularization` above 0.

A classifier that clusters have taught agrees with them more often than it is right. The accuracy to be expected is
therefore the mean of two estimates, one from the end of the warm-up, when it was not yet taught, and one from now.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from shiftcal.data.batches import PseudoLabels
from shiftcal.functional.clustering import cluster_log_posteriors
from shiftcal.functional.self_training import select_class_balanced
from shiftcal.methods.base import EpochOutlook, Evidence
from shiftcal.methods.drl import DistributionallyRobust, RobustNetwork
from shiftcal.methods.rounds import GrowingRounds
from shiftcal.models.networks import Blueprint
from shiftcal.options import option


class SelfTrainedNetwork(RobustNetwork):
    """Remembers what accuracy was expected of it on the target at the end of the warm-up; 0 before."""

    untaught_accuracy: Tensor

    def __init__(self, blueprint: Blueprint, ratio_hidden: int, *, separate: bool) -> None:
        super().__init__(blueprint, ratio_hidden, separate=separate)
        self.register_buffer("untaught_accuracy", torch.zeros(()))


@dataclass(frozen=True, kw_only=True)
class DistributionallyRobustSelfTraining(GrowingRounds, DistributionallyRobust):
    """DRST: self-training on the target rows that DRL is surest of, class by class."""

    cluster_labels: bool = option(
        True, "let the target's clusters take part in labelling (needs ratio_strength auto)"
    )

    def build(self, blueprint: Blueprint) -> RobustNetwork:
        """A classifier and a ratio, with a memory."""
        return SelfTrainedNetwork(blueprint, self.ratio_hidden, separate=self.ratio_network == "separate")

    def conclude(self, network: RobustNetwork, evidence: Evidence) -> dict[str, float]:
        """As `drl`, knowing that the classifier was taught by the clusters."""
        assert isinstance(network, SelfTrainedNetwork)
        earlier = float(network.untaught_accuracy) or None if self.cluster_labels else None
        findings = self.find_strength(network, evidence, untaught_accuracy=earlier)
        return findings if earlier is None else findings | {"untaught_accuracy": earlier}

    def choose_pseudo_labels(self, network: RobustNetwork, outlook: EpochOutlook) -> PseudoLabels | None:
        """None during the warm-up, then a growing portion of each class."""
        portion = self.portion(outlook)
        if portion is None:
            return None
        findings = self.conclude(network, outlook.evidence)
        trust = findings.get("trust", 0.0)
        if "estimated_accuracy" in findings and "untaught_accuracy" not in findings:
            for remembering in (network, outlook.trained_network):
                assert isinstance(remembering, SelfTrainedNetwork)
                remembering.untaught_accuracy.fill_(findings["estimated_accuracy"])
        scores = torch.log_softmax(outlook.predict_target().logits.double(), dim=-1)
        if self.cluster_labels and trust > 0:
            scores = scores + trust * self._cluster_log_posteriors(network, outlook)
        rows, labels = select_class_balanced(torch.softmax(scores, dim=-1), portion)
        return PseudoLabels(rows.numpy(), labels.numpy())

    def _cluster_log_posteriors(self, network: RobustNetwork, outlook: EpochOutlook) -> Tensor:
        """log q (M, C) of all target rows."""
        target = outlook.evidence.target
        assert target is not None

        def represent(inputs: Tensor) -> tuple[Tensor]:
            _, features = network.task(inputs)
            return (network.task.backbone.representation(inputs, features),)

        (representation,) = outlook.evidence.observe(represent, target.inputs)
        return cluster_log_posteriors(representation, network.clusters).double()
