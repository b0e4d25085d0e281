"""Mean confidence: a classifier whose probabilities are right is right as often as it says.

    estimate = mean_target max_c p_c(x)

Hendrycks, Gimpel, "A Baseline for Detecting Misclassified and Out-of-Distribution Examples in Neural Networks", ICLR
2017, as "average confidence" in the comparisons of later papers.
"""

from __future__ import annotations

from dataclasses import dataclass

from shiftcal.target.estimators.base import AccuracyEstimator
from shiftcal.target.evidence import ShiftEvidence, mean_confidence


@dataclass(frozen=True, kw_only=True)
class MeanConfidence(AccuracyEstimator):
    """Mean of the largest probability on the target."""

    def estimate(self, evidence: ShiftEvidence) -> float:
        """As the module says."""
        return mean_confidence(evidence.target.logits)
