"""Confidence scaling: the mean confidence on the target brought to an accuracy, the density ratio deciding where.

    log scale(x) = tau(x) (v u(x) - log T) - (1 - tau(x)) log T_source

scales the logits of x. tau(x) is the target probability (`ObservedRows.target_probability`), u(x) the share of the
predicted class among the target's clusters at x, and v what that share weighs. T is a temperature for target-like
inputs, chosen so that the mean confidence on the target is the accuracy that is expected there. Source-like inputs
(tau -> 0) keep their logits: T_source is 1 unless the source matters too. Then it makes the mean confidence on
held-out source rows what their labels say, for source rows that look like the target have their part of T.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from scipy.optimize import brentq
from torch import Tensor

from shiftcal.target.clusters import Clusters, UnitRows, common_units, fit_clusters, unit_rows
from shiftcal.target.evidence import ObservedRows, ShiftEvidence, calibration_gap, mean_confidence

# Bounds of the search for log T: far beyond what any task needs.
_LOG_TEMPERATURES = (-1.0, 8.0)
# Of log T_source: more would be noise of the ratio, where domains can hardly be told apart.
_SOURCE_LOG_TEMPERATURES = (-1.0, 1.0)
_NUM_ROUNDS = 5
_NEGLIGIBLE = 1e-3
# What the mean confidence on the target can change by at all, below which nothing is to be fitted: hardly a row has
# shifted, and a few would get a temperature that serves to move the mean of all.
_TOO_LITTLE = 0.05
_OF_CLUSTERS = ("units", "centre", "centroids")
_OF_SCALING = ("cluster_vote", "log_temperature", "source_log_temperature")


@dataclass(frozen=True)
class ConfidenceScaling:
    """A fitted scale; scalars are tensors, so that a network can keep them."""

    clusters: Clusters | None
    cluster_vote: Tensor
    """v"""
    log_temperature: Tensor
    """log T"""
    source_log_temperature: Tensor
    """log T_source"""

    @classmethod
    def from_state(cls, state: Mapping[str, Tensor]) -> ConfidenceScaling:
        """As `state` gave it, among others."""
        clusters = None
        if "centroids" in state:
            clusters = Clusters(state["units"], state["centre"], state["centroids"])
        return cls(clusters, state["cluster_vote"], state["log_temperature"], state["source_log_temperature"])

    def state(self) -> dict[str, Tensor]:
        """All of it by name, for those who keep it."""
        clusters = {} if self.clusters is None else {name: getattr(self.clusters, name) for name in _OF_CLUSTERS}
        return clusters | {name: getattr(self, name) for name in _OF_SCALING}

    def log_scale(self, rows: ObservedRows, log_posteriors: Tensor | None = None) -> Tensor:
        """(N,) log of the factor for the logits of each row; log q (N, C) of the clusters may be at hand."""
        shares = None
        if log_posteriors is not None:
            shares = _of_predicted(log_posteriors, rows)
        elif self.voting_clusters is not None and rows.features is not None:
            shares = self.voting_clusters.shares(rows.features, rows.predicted)
        return self.log_scale_by(rows.target_probability, shares)

    def log_scale_by(self, target_probability: Tensor, shares: Tensor | None) -> Tensor:
        """The same from tau (N,) and u (N,), None: without a vote."""
        votes = torch.zeros_like(target_probability) if shares is None else self.cluster_vote * shares
        return _log_scale(target_probability, votes, self.log_temperature, self.source_log_temperature)

    @property
    def voting_clusters(self) -> Clusters | None:
        """The clusters, where they weigh anything."""
        return self.clusters if self.cluster_vote else None

    def scaled_logits(self, rows: ObservedRows, log_posteriors: Tensor | None = None) -> Tensor:
        """(N, C)."""
        return self.log_scale(rows, log_posteriors).exp().unsqueeze(-1) * rows.logits


def fit_scaling(
    evidence: ShiftEvidence,
    accuracy: float,
    cluster_vote: float = 0.0,
    *,
    keep_source: bool = False,
    by_shifted_rows: bool = False,
) -> ConfidenceScaling:
    """The scaling whose mean confidence on the target is an accuracy.

    Args:
        evidence: of both domains.
        accuracy: to be expected on the target.
        cluster_vote: v; without features there is no vote.
        keep_source: find T_source too.
        by_shifted_rows: clusters are those of the rows that have shifted; else of all target rows alike.
    """
    held_out, target = evidence.held_out, evidence.target
    clusters = None
    target_votes, source_votes = (torch.zeros_like(rows.target_probability) for rows in (target, held_out))
    if target.features is not None and evidence.source.features is not None:
        cluster_rows = _cluster_rows(evidence, by_shifted_rows)
        is_whole_target = cluster_rows is evidence.structure.target_rows
        clusters = evidence.target_clusters if is_whole_target else fit_clusters(cluster_rows, target.probabilities)
        if cluster_vote:
            target_votes = cluster_vote * _of_predicted(clusters.log_posteriors_of(cluster_rows), target)
            if held_out.features is not None:
                source_votes = cluster_vote * clusters.shares(held_out.features, held_out.predicted)
    vote = target.logits.new_tensor(cluster_vote)
    on_target, on_source = _confidence_of(target, target_votes), _confidence_of(held_out, source_votes)
    wanted = mean_confidence(held_out.logits) + calibration_gap(held_out.logits, evidence.held_out_labels)

    def solve_target(log_source: float) -> float:
        """log T, given log T_source."""
        low, high = (on_target(bound, log_source) for bound in _LOG_TEMPERATURES)
        if low - high < _TOO_LITTLE:
            return 0.0
        return _root(lambda log_target: on_target(log_target, log_source) - accuracy, _LOG_TEMPERATURES)

    def solve_source(log_target: float) -> float:
        """log T_source, given log T."""
        low, high = (on_source(log_target, bound) for bound in _SOURCE_LOG_TEMPERATURES)
        if low - high < _NEGLIGIBLE:
            return 0.0
        return _root(lambda log_source: on_source(log_target, log_source) - wanted, _SOURCE_LOG_TEMPERATURES)

    log_source, log_target = 0.0, solve_target(0.0)
    for _ in range(_NUM_ROUNDS if keep_source else 0):
        log_source = solve_source(log_target)
        log_target = solve_target(log_source)
    return ConfidenceScaling(clusters, vote, *target.logits.new_tensor([log_target, log_source]))


def _cluster_rows(evidence: ShiftEvidence, by_shifted_rows: bool) -> UnitRows:
    """The target in the features of the classifier itself, which may be others than those it is judged in."""
    structure = evidence.structure
    if evidence.target.reference_features is None:
        return structure.shifted_rows if by_shifted_rows else structure.target_rows
    assert evidence.target.features is not None
    assert evidence.source.features is not None
    weights = structure.shifted.weights if by_shifted_rows else None
    return unit_rows(evidence.target.features, common_units(evidence.source.features), weights)


def _of_predicted(log_posteriors: Tensor, rows: ObservedRows) -> Tensor:
    """u (N,)."""
    return log_posteriors.gather(-1, rows.predicted.unsqueeze(-1)).squeeze(-1).exp()


def _log_scale(tau: Tensor, votes: Tensor, log_temperature: Tensor | float, of_source: Tensor | float) -> Tensor:
    return tau * (votes + (of_source - log_temperature)) - of_source


def _confidence_of(rows: ObservedRows, votes: Tensor) -> Callable[[float, float], float]:
    """The mean confidence as a function of both temperatures."""
    # Whatever the scale, the same class has the largest logit: its probability is one over the sum of the odds.
    below_largest = rows.logits - rows.logits.amax(dim=-1, keepdim=True)

    def confidence(log_temperature: float, of_source: float) -> float:
        scale = _log_scale(rows.target_probability, votes, log_temperature, of_source).exp()
        return float((scale.unsqueeze(-1) * below_largest).exp_().sum(dim=-1).reciprocal().mean())

    return confidence


def _root(surplus: Callable[[float], float], bounds: tuple[float, float]) -> float:
    """Where a falling surplus is 0, or the bound that is nearest to it."""
    low, high = bounds
    if surplus(low) <= 0:
        return low
    if surplus(high) >= 0:
        return high
    return float(brentq(surplus, low, high, xtol=1e-6))
