"""What an estimator of the accuracy on a target is: options, and a number found without target labels."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from shiftcal.target.diagnosis import Diagnosis
from shiftcal.target.evidence import ShiftEvidence, mean_confidence


@dataclass(frozen=True, kw_only=True)
class AccuracyEstimator(ABC):
    """Base of all estimators; it holds options only."""

    @abstractmethod
    def estimate(self, evidence: ShiftEvidence) -> float:
        """The accuracy to be expected on the target, from 0 to 1."""

    def diagnose(self, evidence: ShiftEvidence) -> Diagnosis:
        """The same with what it rests on, for estimators that can tell."""
        return Diagnosis(self.estimate(evidence), mean_confidence(evidence.target.logits))
