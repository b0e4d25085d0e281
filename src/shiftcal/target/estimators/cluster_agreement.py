"""Cluster agreement: how often the classifier agrees with the clusters of the shifted part's own features.

    estimate = (1 - s) held-out accuracy + s sum_target w(x) 1[ argmax_c p_c(x) = argmax_c q_c(x) ] / sum_target w(x)

s is the share of the target that has shifted, w(x) the probability that x has (`shiftcal.target.shifted_part`), and q
the posterior of clusters that are fitted with these weights, to the other rows alone (`shiftcal.target.clusters`).
Where a shift leads the classifier astray, it cuts across these clusters. Ours. Features are those of a network that
learned nothing from the target, where there is one.

A class that is predicted less than 0.15 times as often as it occurs on the source is taken to be absent and has no
cluster: it would be a part of another's. Where that would hold for more than two thirds of the source, or leave a
single class, the shift has driven the classifier into a few classes, and all of them count.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from shiftcal.core.errors import InvalidInputError
from shiftcal.target.clusters import UnitRows, clusters_of_others
from shiftcal.target.estimators.base import AccuracyEstimator
from shiftcal.target.evidence import ShiftEvidence
from shiftcal.target.rule import TrustRule


@dataclass(frozen=True, kw_only=True)
class ClusterAgreement(TrustRule, AccuracyEstimator):
    """How often the classifier agrees with the target's own clusters."""

    def estimate(self, evidence: ShiftEvidence) -> float:
        """As the module says.

        Raises:
            InvalidInputError: there are no features.
        """
        if not evidence.has_features:
            raise InvalidInputError(
                "the estimator 'cluster-agreement' needs features of the inputs, and nothing but outputs is known; "
                "give features, or choose 'average-thresholded-confidence'"
            )
        return agreement_estimate(evidence, self)


def agreement_estimate(evidence: ShiftEvidence, rule: TrustRule) -> float:
    """The estimate, where there are features."""
    structure = evidence.structure
    share, weights = structure.shifted.share, structure.shifted.weights
    agrees = agrees_with_clusters(structure.shifted_rows, evidence.target.logits, evidence.source_labels, rule)
    agreement = float((weights * agrees).sum() / weights.sum())
    return (1 - share) * evidence.held_out_accuracy + share * agreement


def agrees_with_clusters(rows: UnitRows, logits: Tensor, source_labels: Tensor, rule: TrustRule) -> Tensor:
    """Which rows (N,) are predicted as the cluster that they lie in.

    Args:
        rows: of the target.
        logits: (N, C) of the classifier, which the clusters start from.
        source_labels: (M,) that say how frequent classes are on the source.
        rule: when a class counts as absent.
    """
    predicted = logits.argmax(dim=-1)
    weights = rows.weights.squeeze(-1).double()
    num_classes = logits.shape[-1]
    frequency = torch.bincount(predicted, weights, minlength=num_classes) / weights.sum()
    source_frequency = source_labels.bincount(minlength=num_classes) / len(source_labels)
    occurs = (frequency > 0) & (frequency >= rule.absent_frequency * source_frequency)
    if occurs.sum() == 1 or source_frequency[~occurs].sum() > rule.most_absent:
        occurs = torch.ones_like(occurs)
    classes = occurs.nonzero().squeeze(-1)
    return classes[clusters_of_others(rows, torch.softmax(logits, dim=-1)[:, occurs])] == predicted
