"""Histogram binning (Zadrozny & Elkan, "Obtaining calibrated probability estimates ...", ICML 2001) of the top label.

    confidence of the predicted class = share of right answers among the held-out rows of its bin

Bins hold equal numbers of rows, as in the paper, and at least ten. The paper has two classes. Of the two ways to more
this is the top-label one: classes are pooled, because one-vs-rest leaves a class of many with too few rows to bin.
What the predicted class does not have goes to the others in proportion to their probabilities. The prediction never
changes: its confidence is at least chance, and the others are evened out where one would overtake it.

A share of n rows is kept within 1 / (n + 1) and n / (n + 1), and every probability is at least 1e-12, so that the
logits, which are log-probabilities, are finite.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from shiftcal.calibrators.base import CalibrationData, Calibrator, State
from shiftcal.core.options import option
from shiftcal.methods.base import Outputs

_FEWEST_ROWS = 10
_FLOOR = 1e-12
# How far the predicted class stays ahead of the others, relative to its probability.
_LEAD = 1e-3


@dataclass(frozen=True, kw_only=True)
class Histogram(Calibrator):
    """Confidence of the predicted class read from bins of held-out source data."""

    num_bins: int = option(
        15, "bins of equal numbers of rows; fewer if they would hold less than ten", at_least=1, at_most=10_000
    )

    def fit(self, data: CalibrationData) -> State:
        """Count the right answers in each bin; the target is not looked at."""
        confidence, predicted = torch.softmax(data.held_out.logits.double(), dim=-1).max(dim=-1)
        num_bins = min(self.num_bins, max(1, len(confidence) // _FEWEST_ROWS))
        parts = torch.tensor_split(confidence.sort().values, num_bins)
        # A bin reaches up to the largest of its own rows; bins with the same upper end (ties) are one.
        edges = torch.tensor(sorted({float(part[-1]) for part in parts})[:-1], dtype=torch.float64)
        bins = torch.bucketize(confidence, edges)
        counts = torch.bincount(bins, minlength=len(edges) + 1).double()
        right = torch.bincount(bins, (predicted == data.held_out_labels).double(), minlength=len(edges) + 1)
        return {"edges": edges, "shares": (right / counts).clamp(1 / (counts + 1), counts / (counts + 1))}

    def calibrate(self, outputs: Outputs, state: State) -> Tensor:
        """Logarithms of the probabilities."""
        probabilities = torch.softmax(outputs.logits.double(), dim=-1)
        confidence, predicted = probabilities.max(dim=-1, keepdim=True)
        chance = 1 / probabilities.shape[1]
        own = state["shares"][torch.bucketize(confidence, state["edges"])].clamp_min(chance * (1 + _LEAD))
        others = torch.softmax(outputs.logits.double().scatter(1, predicted, -torch.inf), dim=-1)
        calibrated = ((1 - own) * _evened(others, (1 - _LEAD) * own / (1 - own))).scatter(1, predicted, own)
        return calibrated.clamp_min(_FLOOR).log().to(outputs.logits.dtype)


def _evened(others: Tensor, limit: Tensor) -> Tensor:
    """Mix each row of probabilities (N, C) with its uniform one, so that the largest is at most `limit` (N, 1)."""
    uniform = 1 / (others.shape[1] - 1)
    largest = others.max(dim=-1, keepdim=True).values
    excess = (largest - limit).clamp_min(0)
    share = (excess / (largest - uniform).clamp_min(_FLOOR)).clamp_max(1)
    return others + share * (uniform - others)
