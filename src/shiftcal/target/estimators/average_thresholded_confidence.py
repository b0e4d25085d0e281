"""Average thresholded confidence: the share of target rows above a confidence that the source fixes.

    estimate = mean_target 1[ s(x) >= t ],   with t such that mean_held-out 1[ s(x) >= t ] = accuracy

Garg, Balakrishnan, Lipton, Neyshabur, Sedghi, "Leveraging Unlabeled Data to Predict Out-of-Distribution Performance",
ICLR 2022, with the largest probability as score s, or with the negative entropy of the probabilities.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from shiftcal.core.options import option
from shiftcal.target.estimators.base import AccuracyEstimator
from shiftcal.target.evidence import ObservedRows, ShiftEvidence


@dataclass(frozen=True, kw_only=True)
class AverageThresholdedConfidence(AccuracyEstimator):
    """Share of target rows above the confidence that as many source rows exceed as are classified rightly (ATC)."""

    score: Literal["confidence", "entropy"] = option("confidence", "largest probability, or negative entropy")

    def estimate(self, evidence: ShiftEvidence) -> float:
        """As the module says."""
        held_out, target = evidence.held_out, evidence.target
        right = (held_out.predicted == evidence.held_out_labels).double().mean()
        threshold = self._scores(held_out).quantile(1 - right)
        return float((self._scores(target) >= threshold).double().mean())

    def _scores(self, rows: ObservedRows) -> Tensor:
        if self.score == "confidence":
            return rows.probabilities.amax(dim=-1)
        return (rows.probabilities * torch.log_softmax(rows.logits, dim=-1)).sum(dim=-1)
