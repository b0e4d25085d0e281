"""How far several predictions of the same inputs are apart, from logits."""

from __future__ import annotations

import torch
from torch import Tensor

from shiftcal.functional.entropy import prediction_divergence

# Below this variance the square root is held: draws that agree would have an infinite gradient.
SMALLEST_VARIANCE = 1e-12


def absolute_discrepancy(logits: Tensor, other_logits: Tensor) -> Tensor:
    """mean_y |p_y - q_y| of two softmax predictions: (N, C) and (N, C) to (N,), from 0 to 2 / C."""
    return (torch.softmax(logits, dim=-1) - torch.softmax(other_logits, dim=-1)).abs().mean(dim=-1)


def symmetric_divergence(logits: Tensor, other_logits: Tensor) -> Tensor:
    """( KL(p || q) + KL(q || p) ) / 2 of two softmax predictions: (N, C) and (N, C) to (N,), 0 where they agree."""
    return (prediction_divergence(logits, other_logits) + prediction_divergence(other_logits, logits)) / 2


def prediction_deviation(logits: Tensor) -> Tensor:
    """sqrt( sum_y var_k p_ky ) of K softmax predictions: (K, N, C) to (N,), the norm of their standard deviations."""
    variance = torch.softmax(logits, dim=-1).var(dim=0).sum(dim=-1)
    return variance.clamp(min=SMALLEST_VARIANCE).sqrt()
