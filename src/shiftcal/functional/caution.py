"""How cautious to be on the target, found without its labels.

Let tau(x) = P(target | x) = 1 / (1 + R(x)) say how target-like an input is. Its logits are scaled by

    log scale(x) = tau(x) (trust u(x) - caution)

with u(x) the share of the predicted class among the clusters of the target at x. Source-like inputs (tau -> 0) keep
their logits; the scale of target-like ones is a bounded, monotone function of the density ratio, whose strength is
the caution. The caution is chosen so that the mean confidence on the target is the accuracy that can be expected
there, which three observations give:

- `cluster_agreement`: how often the classifier agrees with the clusters of the target's own representation. Where a
  shift leads the classifier astray, it cuts across these clusters.
- `cluster_purity`: what the same clustering achieves on the source, where labels are known, corrected for chance
  (0: no better than the most frequent class). It says whether classes form clusters in this representation at all.
- `separation`: how well the domains can be told apart (0: not at all, 1: always). Without a visible shift held-out
  source data says all there is to know.

The agreement is believed to the degree `trust` = separation x (purity from 0.2 to 0.5 mapped to 0 to 1); for the rest
the confidence on the target is corrected by what held-out source data shows to be wrong with it beyond chance.
The expected accuracy is never above the confidence: nothing here can justify more confidence without labels.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from scipy.optimize import brentq
from torch import Tensor

from shiftcal.functional.clustering import Clusters, cluster_by_predictions, cluster_posteriors

# Weight of the clusters' vote on a single input, in units of log scale, where the clusters are fully trusted.
VOTE = 0.5
_PURITY_RANGE = (0.2, 0.5)
_CAUTION_RANGE = (-1.0, 8.0)


class Observed(NamedTuple):
    """What is known of the rows of one domain; float64 throughout."""

    logits: Tensor
    """(N, C) of the classifier."""
    domain_logit: Tensor
    """(N,) log R, of "source"."""
    representation: Tensor
    """(N, F) in which clusters are looked for."""


class AccuracyEstimate(NamedTuple):
    """The accuracy to be expected on the target, and what it rests on."""

    accuracy: float
    cluster_agreement: float
    cluster_purity: float
    separation: float
    trust: float


class Caution(NamedTuple):
    """A fitted scale."""

    clusters: Clusters
    vote: Tensor
    """Scalar: weight of the clusters' vote on a single input."""
    caution: Tensor
    """Scalar."""


def log_scale(caution: Caution, rows: Observed) -> Tensor:
    """log of the factor (N,) for the logits of each row."""
    posteriors = cluster_posteriors(rows.representation, caution.clusters)
    predicted = rows.logits.argmax(dim=-1, keepdim=True)
    support = posteriors.gather(-1, predicted).squeeze(-1)
    return torch.sigmoid(-rows.domain_logit) * (caution.vote * support - caution.caution)


def fit_caution(
    source: Observed, source_labels: Tensor, held_out: Observed, held_out_labels: Tensor, target: Observed
) -> tuple[Caution, AccuracyEstimate]:
    """Find the caution, and the accuracy estimate that it rests on.

    Args:
        source: rows that the classifier was trained on, with labels (N,).
        held_out: source rows that it was not trained on, with labels.
        target: rows of the target.
    """
    clusters = cluster_by_predictions(target.representation, torch.softmax(target.logits, dim=-1))
    estimate = estimate_accuracy(source, source_labels, held_out, held_out_labels, target, clusters)
    vote = target.logits.new_tensor(VOTE * estimate.trust)

    def surplus(caution: float) -> float:
        scale = log_scale(Caution(clusters, vote, target.logits.new_tensor(caution)), target).exp()
        return _mean_confidence(scale.unsqueeze(-1) * target.logits) - estimate.accuracy

    return Caution(clusters, vote, target.logits.new_tensor(_root(surplus))), estimate


def estimate_accuracy(
    source: Observed,
    source_labels: Tensor,
    held_out: Observed,
    held_out_labels: Tensor,
    target: Observed,
    clusters: Clusters,
) -> AccuracyEstimate:
    """Accuracy to be expected on the target; arguments as for `fit_caution`."""
    agreement = _agreement(target.representation, clusters, target.logits.argmax(dim=-1))
    source_clusters = cluster_by_predictions(source.representation, torch.softmax(source.logits, dim=-1))
    chance = float(source_labels.bincount().max()) / len(source_labels)
    purity = (_agreement(source.representation, source_clusters, source_labels) - chance) / (1 - chance)
    # The worse side counts: a few target rows can be learned by heart, which held-out source rows bring to light.
    recognised = min((held_out.domain_logit > 0).double().mean(), (target.domain_logit < 0).double().mean())
    separation = max(2 * float(recognised) - 1, 0.0)
    low, high = _PURITY_RANGE
    trust = separation * min(max((purity - low) / (high - low), 0.0), 1.0)
    confidence = _mean_confidence(target.logits)
    corrected = confidence + _calibration_gap(held_out.logits, held_out_labels)
    expected = trust * agreement + (1 - trust) * corrected
    floor = 1 / target.logits.shape[-1]
    return AccuracyEstimate(min(max(expected, floor), confidence), agreement, purity, separation, trust)


def _agreement(representation: Tensor, clusters: Clusters, labels: Tensor) -> float:
    return float((cluster_posteriors(representation, clusters).argmax(dim=-1) == labels).double().mean())


def _mean_confidence(logits: Tensor) -> float:
    return float(torch.softmax(logits, dim=-1).max(dim=-1).values.mean())


def _calibration_gap(logits: Tensor, labels: Tensor) -> float:
    """Accuracy less confidence, less a standard error towards zero: what held-out data shows beyond chance."""
    accuracy = float((logits.argmax(dim=-1) == labels).double().mean())
    gap = accuracy - _mean_confidence(logits)
    variance = max(accuracy * (1 - accuracy), 1 / len(labels))
    excess: float = max(abs(gap) - (variance / len(labels)) ** 0.5, 0.0)
    return excess if gap > 0 else -excess


def _root(surplus: Callable[[float], float]) -> float:
    """The caution at which confidence and expected accuracy meet; confidence falls as caution rises."""
    low, high = _CAUTION_RANGE
    if surplus(low) <= 0:
        return low
    if surplus(high) >= 0:
        return high
    return float(brentq(surplus, low, high, xtol=1e-6))
