"""Pseudo-labels of one view of an input that supervise another (Sohn et al., NeurIPS 2020, Eq. 4)."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from scipy.optimize import brentq
from torch import Tensor
from torch.nn.functional import cross_entropy

_LEAST_LOG_POWER = -8.0


class ConsistencyLoss(NamedTuple):
    """The loss, and which rows had a part in it."""

    loss: Tensor
    kept: Tensor
    """(N,) whether a row's pseudo-label was sure enough."""


def consistency_loss(weak_probabilities: Tensor, strong_logits: Tensor, threshold: float | Tensor) -> ConsistencyLoss:
    """mean_n 1[ max p(weak_n) >= threshold ] cross_entropy( argmax p(weak_n), softmax(z(strong_n)) ).

    The mean is over all rows, so rows that are left out make the loss smaller. No gradient passes through the
    pseudo-labels.

    Args:
        weak_probabilities: (N, C) of the view that gives the pseudo-labels, by any predictive form.
        strong_logits: (N, C) of the view that is to agree with them.
        threshold: the least confidence of a pseudo-label; for all rows, or (N,) for each.
    """
    confidence, labels = weak_probabilities.detach().max(dim=-1)
    kept = confidence >= threshold
    losses = cross_entropy(strong_logits, labels, reduction="none")
    return ConsistencyLoss((losses * kept).mean(), kept)


def pseudo_label_record(weak_probabilities: Tensor, kept: Tensor) -> dict[str, Tensor]:
    """What can be said of pseudo-labels without labels, by name: the share that is kept, and how sure they are.

    The mean confidence of those kept is left out where none is: it has no value then.
    """
    record = {"pseudo_coverage": kept.float().mean()}
    if kept.any():
        record["pseudo_confidence"] = weak_probabilities.detach().amax(dim=-1)[kept].mean()
    return record


def align_probabilities(probabilities: Tensor, wanted: Tensor, found: Tensor) -> Tensor:
    """Probabilities (N, C) times wanted / found (C,), normalised (Berthelot et al., ICLR 2022, section 3.2).

    Distribution alignment: where `found` is the mean of the probabilities, the mean afterwards is close to `wanted`.
    """
    # As in the authors' code: a class that is found nowhere must not take all.
    aligned = probabilities * (wanted + 1e-6) / (found + 1e-6)
    return aligned / aligned.sum(dim=-1, keepdim=True)


def power_for_confidence(log_probabilities: Tensor, confidence: float, likeness: Tensor | float = 1.0) -> float:
    """The power s of probabilities at which their mean confidence is the given one; 1 where it is lower anyway.

    Args:
        log_probabilities: (N, C), each row up to a constant.
        confidence: wanted mean of the largest probability of a row.
        likeness: (N, 1) how far the power holds for each row, of which s^likeness is the power.
    """

    def surplus(log_power: float) -> float:
        powers = torch.exp(torch.as_tensor(log_power * likeness, dtype=log_probabilities.dtype))
        return float(torch.softmax(powers * log_probabilities, dim=-1).amax(dim=-1).mean()) - confidence

    if surplus(0.0) <= 0:
        return 1.0
    return math.exp(_LEAST_LOG_POWER if surplus(_LEAST_LOG_POWER) >= 0 else brentq(surplus, _LEAST_LOG_POWER, 0.0))
