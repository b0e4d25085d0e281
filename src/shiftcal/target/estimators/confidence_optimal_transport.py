"""Confidence optimal transport: how far the target's probabilities lie from labels as frequent as on the source.

    estimate = 1 - min over plans of mean ( 1 - p_y(x) ),   plans: each target row gets one label y, the labels of
                                                              held-out source rows are all used once

Lu, Wang, Zhai, Kolouri, Campbell, Sycara, "Predicting Out-of-Distribution Error with Confidence Optimal Transport",
2023. A classifier that a shift drives into few classes can't spread its rows over all of them without a cost, which
its confidence alone does not show. Takes classes to be as frequent as on the source.
"""

from __future__ import annotations

from dataclasses import dataclass

from scipy.optimize import linear_sum_assignment

from shiftcal.core.options import option
from shiftcal.target.estimators.base import AccuracyEstimator
from shiftcal.target.evidence import ShiftEvidence
from shiftcal.target.row_order import content_order
from shiftcal.target.sampling import sampled_rows


@dataclass(frozen=True, kw_only=True)
class ConfidenceOptimalTransport(AccuracyEstimator):
    """Mean confidence if target rows had to have labels as frequent as on the source (COT)."""

    most_rows: int = option(1000, "of each domain: the transport takes cubic time", at_least=10, at_most=10_000)

    def estimate(self, evidence: ShiftEvidence) -> float:
        """As the module says."""
        domains = (evidence.target.logits, evidence.held_out.logits)
        parts = [sampled_rows(len(logits), self.most_rows) for logits in domains]
        num_rows = min(map(len, parts))
        # As many of each, whichever order they come in.
        rows, own = (
            part[content_order(logits[part])][sampled_rows(len(part), num_rows)]
            for part, logits in zip(parts, domains, strict=True)
        )
        probabilities = evidence.target.probabilities[rows][:, evidence.held_out_labels[own]].numpy()
        return float(probabilities[linear_sum_assignment(probabilities, maximize=True)].mean())
