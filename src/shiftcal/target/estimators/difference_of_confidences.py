"""Difference of confidences: the confidence on the target, corrected by what is wrong with it on the source.

    estimate = accuracy_held-out - (mean confidence_held-out - mean confidence_target)

Guillory, Shankar, Ebrahimi, Darrell, Schmidt, "Predicting with Confidence on Unseen Distributions", ICCV 2021, with
the difference itself instead of a regression on it. Ours: the correction is shrunk by a standard error, so that a
handful of held-out rows corrects nothing. Without a shift it says all there is to know; under a shift it is too high.
"""

from __future__ import annotations

from dataclasses import dataclass

from shiftcal.target.estimators.base import AccuracyEstimator
from shiftcal.target.evidence import ShiftEvidence, calibration_gap, mean_confidence


@dataclass(frozen=True, kw_only=True)
class DifferenceOfConfidences(AccuracyEstimator):
    """Mean confidence on the target, corrected by the calibration gap of held-out source rows (DoC)."""

    def estimate(self, evidence: ShiftEvidence) -> float:
        """As the module says."""
        gap = calibration_gap(evidence.held_out.logits, evidence.held_out_labels)
        return min(max(mean_confidence(evidence.target.logits) + gap, 0.0), 1.0)
