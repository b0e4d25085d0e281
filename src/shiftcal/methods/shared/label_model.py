"""Pseudo-labels by the scaled prediction, the target's own clusters and its class frequencies.

    p  proportional to f_c(x) q_c(x)^(0.3 s) b_c

f is the predictive form of `drl`, scaled so that its mean confidence on the target is the accuracy that is expected
there (`shiftcal.target.scaling`), found anew before each epoch. Of which domain a row is, is known here: tau is 0 for
rows of the source, and for those of the target P(new | x), that a row is of the part that has shifted. q is the share
of each class among the clusters of the target at x, and s says how far they are believed
(`shiftcal.target.estimators.combined`): where classes form no clusters, rows do not gather around them or nothing was
shifted, p is f. A part of it is enough, as q is far surer than it is right. The clusters know of the target's own
structure, which the source could not teach the classifier; rows on which the two differ are labelled by whichever is
surer. That is ours, not the paper's. The structure must be the data's own: clusters of features that the network
learns along with its pseudo-labels confirm whatever these say.

b corrects the prior (Berthelot et al., ICLR 2022, section 3.2, as distribution alignment): the frequency of each
class on the source by the mean of p without b on the target, to the power of how far the shift changes what the
classifier says. A shift makes some classes attract the rows of others, and self-training on that drives a network
into a few of them. Where other class frequencies explained the shift before the first labels
(`shiftcal.target.class_priors`), b is these frequencies by those of the source, and clusters take no part. Where too
few source rows are held out to tell, b is 1.

Labels are believed as far as clusters are, or as far as the classifier is expected to be right more often than
chance, whichever is more. Of two classes and an expected accuracy of .65 that is .3: to train on half of such a
target at once drives a classifier away from the little that it knows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor, nn

from shiftcal.functional.consistency import log_alignment
from shiftcal.target.diagnosis import Diagnosis
from shiftcal.target.estimators.combined import Combined
from shiftcal.target.evidence import BeforeAdaptation, ObservedRows, ShiftEvidence
from shiftcal.target.scaling import ConfidenceScaling, fit_scaling

_LEAST_FREQUENCY = 1e-6
# Domain AUC of outputs from which on a shift is said to change what the classifier says. Settled while looking at
# errors, with target labels, on Office features and digits, and on targets that lack half of the classes.
_FULL_DOMAIN_AUC = 0.65
# Of q, where it is fully believed. Of 0, .3 and 1, judged by labels of the targets on features of digits and of
# CIFAR-10 and STL-10 and on newsgroups: without q MNIST to USPS loses 8 points, with all of it newsgroups lose 3.
_CLUSTER_POWER = 0.3


class LabelScores(NamedTuple):
    """Of rows (N, C), each up to a constant."""

    joint: Tensor
    """log p"""
    without_clusters: Tensor
    """log f b"""


@dataclass(frozen=True)
class LabelModel:
    """A fitted p."""

    scaling: ConfidenceScaling
    """That makes f of the classifier's logits."""
    cluster_trust: Tensor
    """Scalar: how far q is believed; 0 if clusters take no part."""
    log_prior_correction: Tensor
    """(C,) log b."""
    label_trust: Tensor
    """Scalar: how far labels by p are believed."""

    def log_scores(self, rows: ObservedRows) -> Tensor:
        """log p (N, C), each row up to a constant."""
        return self.scores(rows).joint

    def scores(self, rows: ObservedRows) -> LabelScores:
        """The same, and without q."""
        clusters, log_posteriors = self.scaling.clusters, None
        if clusters is not None and rows.features is not None and self.cluster_trust:
            log_posteriors = clusters.log_posteriors(rows.features)
        scaled = self.scaling.scaled_logits(rows, log_posteriors)
        without_clusters = torch.log_softmax(scaled, dim=-1) + self.log_prior_correction
        if log_posteriors is None:
            return LabelScores(without_clusters, without_clusters)
        return LabelScores(without_clusters + _CLUSTER_POWER * self.cluster_trust * log_posteriors, without_clusters)


def fit_label_model(
    evidence: ShiftEvidence, *, by_clusters: bool, correct_prior: bool, for_threshold: bool = False
) -> tuple[LabelModel, Diagnosis]:
    """Find p, and the estimate of the accuracy that its sharpness rests on.

    Args:
        evidence: of both domains.
        by_clusters: whether q takes part.
        correct_prior: whether b does.
        for_threshold: whether f is for a threshold on confidence, which needs rows that stand out: clusters then have
            a vote on how sure it is of a row, even if q takes no part, and source-like rows stay as sure as before.
    """
    rule = Combined()
    found = rule.of_known_classes(evidence)
    like = evidence.target.logits
    for_threshold = for_threshold and not found.prior_explains
    believed = structure_trust(found) * evidence.gathering
    trust = like.new_tensor(believed if by_clusters else 0.0)
    vote = rule.cluster_vote * believed if by_clusters or for_threshold else 0.0
    scaling = fit_scaling(evidence, found.accuracy, vote, keep_source=for_threshold)
    label_trust = like.new_tensor(max(believed, accuracy_above_chance(found.accuracy, evidence.num_classes)))
    uncorrected = LabelModel(scaling, trust, like.new_zeros(evidence.num_classes), label_trust)
    labels = evidence.source_labels
    wanted = labels.bincount(minlength=evidence.num_classes) / len(labels)
    if found.prior_explains and correct_prior:
        assert found.prior_shift is not None
        frequencies = like.new_tensor(found.prior_shift.frequencies)
        correction = (frequencies / wanted.to(like).clamp_min(_LEAST_FREQUENCY)).log()
        return replace(uncorrected, log_prior_correction=correction), found
    if not correct_prior or found.domain_auc is None:
        return uncorrected, found
    predicted = torch.softmax(uncorrected.log_scores(evidence.target), dim=-1).mean(dim=0)
    correction = shift_degree(found.domain_auc) * log_alignment(wanted, predicted)
    return replace(uncorrected, log_prior_correction=correction.to(like)), found


def structure_trust(found: Diagnosis) -> float:
    """How far clusters of the target, in features that the classifier is judged in, are believed to be classes."""
    # Clusters of all classes would be looked for among rows of a few; and where a shift changes nothing of what the
    # classifier says, it needs no help from clusters.
    return 0.0 if found.prior_explains else found.trust * shift_degree(found.domain_auc)


def accuracy_above_chance(accuracy: float, num_classes: int) -> float:
    """From 0 for no better than one of the classes at random, to 1."""
    chance = 1 / num_classes
    return max((accuracy - chance) / (1 - chance), 0.0)


def confusion_trust(found: Diagnosis) -> float:
    """How much little confusion between classes on the target is worth."""
    return 0.0 if found.prior_explains else shift_degree(found.domain_auc) * found.accuracy


def shift_degree(domain_auc: float | None) -> float:
    """How far a shift changes what the classifier says, from 0 to 1; 1 where that is not known."""
    if domain_auc is None:
        return 1.0
    return min(max((domain_auc - 0.5) / (_FULL_DOMAIN_AUC - 0.5), 0.0), 1.0)


class LabelBuffers(nn.Module):
    """A label model as buffers of a network; flat until one was fitted."""

    units: Tensor
    centre: Tensor
    centroids: Tensor
    cluster_vote: Tensor
    log_temperature: Tensor
    source_log_temperature: Tensor
    cluster_trust: Tensor
    label_trust: Tensor
    confusion_trust: Tensor
    log_prior_correction: Tensor
    before_adaptation: Tensor
    shifted_probability: Tensor
    shifted_share: Tensor
    ratio_slope: Tensor
    ratio_intercept: Tensor

    def __init__(self, structure_dim: int, num_classes: int, num_target_rows: int) -> None:
        super().__init__()
        self.register_buffer("units", torch.ones(structure_dim))
        self.register_buffer("centre", torch.zeros(structure_dim))
        self.register_buffer("centroids", torch.zeros(num_classes, structure_dim))
        of_scaling = ("cluster_vote", "log_temperature", "source_log_temperature")
        for name in (*of_scaling, "cluster_trust", "label_trust", "confusion_trust"):
            self.register_buffer(name, torch.zeros(()))
        self.register_buffer("log_prior_correction", torch.zeros(num_classes))
        # Accuracy, domain AUC and whether class frequencies explained the shift, all as they were then, and cluster
        # purity as it was last found (NaN: None); 0: not trained on pseudo-labels yet.
        self.register_buffer("before_adaptation", torch.zeros(4))
        # P(new | x) of each row of the target (`shiftcal.target.shifted_part`), as it was before the first labels.
        self.register_buffer("shifted_probability", torch.ones(num_target_rows))
        self.register_buffer("shifted_share", torch.ones(()))
        # log R as a linear function of the structure, after training; R is 1 before.
        self.register_buffer("ratio_slope", torch.zeros(structure_dim))
        self.register_buffer("ratio_intercept", torch.zeros(()))

    @property
    def model(self) -> LabelModel:
        """The label model that these buffers hold."""
        scaling = ConfidenceScaling.from_state(dict(self.named_buffers()))
        return LabelModel(scaling, self.cluster_trust, self.log_prior_correction, self.label_trust)

    @property
    def known_before(self) -> BeforeAdaptation | None:
        """What was known before the first pseudo-labels."""
        if not self.before_adaptation.any():
            return None
        accuracy, auc, explains, purity = self.before_adaptation.tolist()
        known_auc, known_purity = (None if math.isnan(value) else value for value in (auc, purity))
        return BeforeAdaptation(accuracy, known_auc, bool(explains), known_purity)

    def values(self, model: LabelModel, found: Diagnosis) -> dict[str, Tensor]:
        """What the buffers are to be for a label model that was fitted along with an estimate.

        Of the estimate before the first pseudo-labels all is remembered, of later ones the purity of clusters.
        """
        values = {
            **model.scaling.state(),
            "cluster_trust": model.cluster_trust,
            "label_trust": model.label_trust,
            "confusion_trust": torch.tensor(confusion_trust(found)),
            "log_prior_correction": model.log_prior_correction,
        }
        before, purity = self.known_before, None if found.witnesses is None else found.witnesses.cluster_purity
        seen: tuple[float | None, ...] = (found.accuracy, found.domain_auc, found.prior_explains, purity)
        if before is not None:
            seen = (before.accuracy, before.domain_auc, before.prior_explains, purity)
        values["before_adaptation"] = torch.tensor([math.nan if value is None else float(value) for value in seen])
        return values
