"""Calibrated confidence: the mean confidence on the target after calibration on the source.

    estimate = mean_target h( max_c p_c(x) ),   h = isotonic regression of "right" on the confidence of held-out rows

The confidence-based performance estimate (CBPE) of nannyml (Kuberski, "Performance Estimation", 2022), for the top
label: right wherever a confidence means on the target what it means on the source, as under many covariate shifts of
tables. Isotonic regression: Zadrozny, Elkan, KDD 2002.
"""

from __future__ import annotations

from dataclasses import dataclass

from sklearn.isotonic import IsotonicRegression
from torch import Tensor

from shiftcal.target.estimators.base import AccuracyEstimator
from shiftcal.target.evidence import ShiftEvidence


@dataclass(frozen=True, kw_only=True)
class CalibratedConfidence(AccuracyEstimator):
    """Mean confidence on the target, calibrated by isotonic regression on held-out source rows (CBPE)."""

    def estimate(self, evidence: ShiftEvidence) -> float:
        """As the module says."""
        return calibrated_mean_confidence(evidence)


def calibrated_mean_confidence(evidence: ShiftEvidence, weights: Tensor | None = None) -> float:
    """The mean of h on the target, with h fitted to held-out rows of these weights (N,)."""
    regression = IsotonicRegression(y_min=0, y_max=1, out_of_bounds="clip")
    confidence = evidence.held_out.probabilities.amax(dim=-1)
    regression.fit(confidence.numpy(), evidence.right.numpy(), None if weights is None else weights.numpy())
    return float(regression.predict(evidence.target.probabilities.amax(dim=-1).numpy()).mean())
