"""Cluster agreement: how often the classifier agrees with the clusters of the target's own features.

    estimate = mean_target 1[ argmax_c p_c(x) = argmax_c q_c(x) ],   q of `shiftcal.target.clusters`

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
from shiftcal.target.clusters import common_units, fit_clusters
from shiftcal.target.estimators.base import AccuracyEstimator
from shiftcal.target.evidence import ObservedRows, ShiftEvidence
from shiftcal.target.rule import TrustRule


@dataclass(frozen=True, kw_only=True)
class ClusterAgreement(TrustRule, AccuracyEstimator):
    """How often the classifier agrees with the target's own clusters."""

    def estimate(self, evidence: ShiftEvidence) -> float:
        """As the module says.

        Raises:
            InvalidInputError: there are no features.
        """
        features = judging_features(evidence.target)
        source_features = judging_features(evidence.source)
        if features is None or source_features is None:
            raise InvalidInputError(
                "the estimator 'cluster-agreement' needs features of the inputs, and nothing but outputs is known; "
                "give features, or choose 'average-thresholded-confidence'"
            )
        agrees = agrees_with_clusters(
            features, evidence.target.logits, evidence.source_labels, self, common_units(source_features)
        )
        return float(agrees.double().mean())


def judging_features(rows: ObservedRows) -> Tensor | None:
    """The features in whose clusters a classifier is judged."""
    return rows.features if rows.reference_features is None else rows.reference_features


def agrees_with_clusters(
    features: Tensor, logits: Tensor, source_labels: Tensor, rule: TrustRule, units: Tensor
) -> Tensor:
    """Which rows (N,) are predicted as the cluster that they lie in.

    Args:
        features: (N, F) of the target.
        logits: (N, C) of the classifier, which the clusters start from.
        source_labels: (M,) that say how frequent classes are on the source.
        rule: when a class counts as absent.
        units: (F,) that features are divided by.
    """
    predicted = logits.argmax(dim=-1)
    frequency, source_frequency = (
        labels.bincount(minlength=logits.shape[-1]) / len(labels) for labels in (predicted, source_labels)
    )
    occurs = (frequency > 0) & (frequency >= rule.absent_frequency * source_frequency)
    if occurs.sum() == 1 or source_frequency[~occurs].sum() > rule.most_absent:
        occurs = torch.ones_like(occurs)
    clusters = fit_clusters(features, torch.softmax(logits, dim=-1)[:, occurs], units)
    classes = occurs.nonzero().squeeze(-1)
    return classes[clusters.assigned(features)] == predicted
