"""Class frequencies of a target whose classes look as on the source but occur more or less often (prior shift).

    q_c  <-  mean_target  p_c(x) q_c / p_c / sum_k p_k(x) q_k / p_k

until it stays: the maximum likelihood of q (MLLS), by expectation maximisation (Saerens, Latinne, Decaestecker,
Neural Computation 14, 2002), from probabilities that are calibrated on the source, class by class, as they must be
(`shiftcal.functional.bias_corrected_temperature`). p are the frequencies of the source. Counts of the source, one for
each class in the mean, are added to those of the target: a class of a few rows is not driven to 0 by chance.

Whether frequencies are all that has changed is asked of the inputs: with source rows weighted by q / p of their
labels, a classifier of the domain can't tell them from the target then.

Where a classifier hardly tells classes apart, many frequencies are as likely: the accuracy that follows from them is
known as well as they are (the delta method, with log q as coordinates and the information of the target's rows).
"""

from __future__ import annotations

import math

import numpy as np
import torch
from scipy.sparse.linalg import LinearOperator, cg
from torch import Tensor

from shiftcal.functional.bias_corrected_temperature import bias_corrected
from shiftcal.target.diagnosis import PriorShift
from shiftcal.target.domain_auc import domain_auc
from shiftcal.target.evidence import ShiftEvidence
from shiftcal.target.rule import TrustRule

_MOST_ROUNDS = 500
_SETTLED = 1e-7
# A class that is hardly ever seen on the source says little of the target.
_LARGEST_WEIGHT = 20.0
_LEAST_WEIGHT = 1e-3


def target_frequencies(probabilities: Tensor, source_frequencies: Tensor) -> Tensor:
    """q (C,) from calibrated probabilities (M, C) of target rows and p (C,)."""
    num_rows, num_classes = probabilities.shape
    found = source_frequencies
    for _ in range(_MOST_ROUNDS):
        posterior = corrected(probabilities, source_frequencies, found)
        counts = posterior.sum(dim=0) + num_classes * source_frequencies
        previous, found = found, counts / (num_rows + num_classes)
        if float((found - previous).abs().max()) < _SETTLED:
            break
    return found


def corrected(probabilities: Tensor, source_frequencies: Tensor, frequencies: Tensor) -> Tensor:
    """Probabilities (M, C) for these class frequencies in place of those of the source."""
    joint = probabilities * (frequencies / source_frequencies.clamp_min(1e-12))
    return joint / joint.sum(dim=-1, keepdim=True).clamp_min(1e-300)


def find_prior_shift(evidence: ShiftEvidence, rule: TrustRule) -> PriorShift:
    """The class frequencies of the target, and how far they explain the shift."""
    labels, num_classes = evidence.source_labels, evidence.num_classes
    counts = labels.bincount(minlength=num_classes).double()
    source = (counts + 1e-3) / (counts.sum() + 1e-3 * num_classes)
    probabilities = bias_corrected(evidence.held_out.logits, evidence.held_out_labels, evidence.target.logits)
    found = target_frequencies(probabilities, source)
    weights = (found / source).clamp(_LEAST_WEIGHT, _LARGEST_WEIGHT)[labels]
    own, _, target = evidence.structure.components
    posterior = corrected(probabilities, source, found)
    seen = {
        "distance": float((found - source).abs().sum() / 2),
        "by_chance": _distance_by_chance(source, len(labels), len(target)),
        "domain_auc": domain_auc(own, target),
        "weighted_domain_auc": domain_auc(own, target, weights),
    }
    return PriorShift(
        frequencies=tuple(found.tolist()),
        **seen,
        accuracy=float(posterior.gather(-1, evidence.target.predicted.unsqueeze(-1)).mean()),
        explains=rule.prior_explains(**seen),
        standard_error=standard_error(posterior, found, evidence.target.predicted),
    )


def standard_error(posterior: Tensor, frequencies: Tensor, predicted: Tensor) -> float:
    """Of the mean probability of predicted classes (M,), for q (C,) that were found from the same rows (M, C)."""
    num_rows, num_classes = posterior.shape
    own = posterior.gather(-1, predicted.unsqueeze(-1))
    by_class = torch.zeros(num_classes, dtype=posterior.dtype).index_add_(0, predicted, own.squeeze(-1))
    slope = ((by_class - (own * posterior).sum(dim=0)) / num_rows).numpy()
    rows, q = posterior.numpy(), frequencies.numpy()

    def information(direction: np.ndarray) -> np.ndarray:
        along = q @ direction
        by_row = rows @ direction - along
        # Of the rows, and of the counts of the source that were added to them.
        return np.asarray(rows.T @ by_row - q * by_row.sum() + num_classes * q * (direction - along))

    operator = LinearOperator((num_classes, num_classes), matvec=information, dtype=np.float64)
    solved, _ = cg(operator, slope, rtol=1e-6, maxiter=_MOST_ROUNDS)
    return math.sqrt(max(float(slope @ solved), 0.0))


def _distance_by_chance(frequencies: Tensor, num_source: int, num_target: int) -> float:
    """Expected total variation of two samples of the same frequencies (normal approximation)."""
    variance = frequencies * (1 - frequencies) * (1 / num_source + 1 / num_target)
    return float((2 / math.pi * variance).sqrt().sum() / 2)
