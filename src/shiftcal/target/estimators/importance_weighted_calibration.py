"""Importance-weighted calibration: what a confidence means on the target, by the source rows that are like it.

    estimate = mean_target h( max_c p_c(x) ),   h = isotonic regression of "right" on confidence, rows weighted by
                                                    w = P_target / P_source

M-CBPE, or PAPE: Białek, Kuberski, Perrakis, Bifet, "Estimating Model Performance Under Covariate Shift Without
Labels", arXiv 2401.08348; as `calibrated-confidence`, which takes a confidence to mean the same everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass

from shiftcal.core.options import option
from shiftcal.target.estimators.base import AccuracyEstimator
from shiftcal.target.estimators.calibrated_confidence import calibrated_mean_confidence
from shiftcal.target.estimators.importance_weighted_accuracy import importance_weights
from shiftcal.target.evidence import ShiftEvidence


@dataclass(frozen=True, kw_only=True)
class ImportanceWeightedCalibration(AccuracyEstimator):
    """Mean confidence on the target, calibrated on held-out rows weighted to be like it (M-CBPE, PAPE)."""

    largest_weight: float = option(50.0, "of a held-out row, P_target / P_source", above=1)

    def estimate(self, evidence: ShiftEvidence) -> float:
        """As the module says."""
        return calibrated_mean_confidence(evidence, importance_weights(evidence, self.largest_weight))
