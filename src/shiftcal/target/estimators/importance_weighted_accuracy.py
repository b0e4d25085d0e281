"""Importance-weighted accuracy: held-out source rows count as often as their like occur on the target.

    estimate = sum_held-out w(x) 1[right] / sum_held-out w(x),   w = P_target / P_source

Right under covariate shift within the source's support; Sugiyama, Krauledat, Müller, JMLR 8, 2007. The weights come
from `shiftcal.target.domain_classifier`, out of fold.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from shiftcal.core.options import option
from shiftcal.target.estimators.base import AccuracyEstimator
from shiftcal.target.evidence import ShiftEvidence


@dataclass(frozen=True, kw_only=True)
class ImportanceWeightedAccuracy(AccuracyEstimator):
    """Accuracy on held-out source rows, weighted by how often their like occur on the target (IWA)."""

    largest_weight: float = option(50.0, "of a held-out row, P_target / P_source", above=1)

    def estimate(self, evidence: ShiftEvidence) -> float:
        """As the module says."""
        weights = importance_weights(evidence, self.largest_weight)
        return float((weights * evidence.right).sum() / weights.sum())


def importance_weights(evidence: ShiftEvidence, largest: float) -> Tensor:
    """P_target / P_source (N,) of held-out rows, within 1/largest and largest; 1 where there are too few rows."""
    domains = evidence.structure.domains
    if domains is None:
        return evidence.right.new_ones(len(evidence.right))
    return domains.source_log_odds[: len(evidence.right)].exp().clamp(1 / largest, largest)
