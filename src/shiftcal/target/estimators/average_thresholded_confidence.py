"""Average thresholded confidence: the share of target rows above a confidence that the source fixes.

    estimate = mean_target 1[ max_c p_c(x) >= t ],   with t such that mean_held-out 1[ max_c p_c(x) >= t ] = accuracy

Garg, Balakrishnan, Lipton, Neyshabur, Sedghi, "Leveraging Unlabeled Data to Predict Out-of-Distribution Performance",
ICLR 2022, with the largest probability as score.
"""

from __future__ import annotations

from dataclasses import dataclass

from shiftcal.target.estimators.base import AccuracyEstimator
from shiftcal.target.evidence import ShiftEvidence


@dataclass(frozen=True, kw_only=True)
class AverageThresholdedConfidence(AccuracyEstimator):
    """Share of target rows above the confidence that as many source rows exceed as are classified rightly (ATC)."""

    def estimate(self, evidence: ShiftEvidence) -> float:
        """As the module says."""
        held_out, target = evidence.held_out, evidence.target
        right = (held_out.predicted == evidence.held_out_labels).double().mean()
        threshold = held_out.probabilities.amax(dim=-1).quantile(1 - right)
        return float((target.probabilities.amax(dim=-1) >= threshold).double().mean())
