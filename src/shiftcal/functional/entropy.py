"""Entropy of predictions and divergence between them, from logits."""

from __future__ import annotations

import torch
from torch import Tensor


def prediction_entropy(logits: Tensor) -> Tensor:
    """H = -sum_y p_y log p_y with p = softmax(logits): (N, C) to (N,), from 0 (sure) to log C (uniform)."""
    return _entropy(torch.log_softmax(logits, dim=-1))


def certainty_weights(logits: Tensor) -> Tensor:
    """1 + exp(-H), for methods in which sure predictions count more: (N, C) to (N,), from 1 + 1/C up to 2."""
    return certainty_weights_of(torch.log_softmax(logits, dim=-1))


def certainty_weights_of(log_probabilities: Tensor) -> Tensor:
    """The same from log p (N, C), where that is at hand."""
    return 1 + torch.exp(-_entropy(log_probabilities))


def _entropy(log_probabilities: Tensor) -> Tensor:
    return -(log_probabilities.exp() * log_probabilities).sum(dim=-1)


def prediction_divergence(reference_logits: Tensor, logits: Tensor) -> Tensor:
    """KL(softmax(reference_logits) || softmax(logits)): (N, C) and (N, C) to (N,), 0 where they agree."""
    reference = torch.log_softmax(reference_logits, dim=-1)
    return (reference.exp() * (reference - torch.log_softmax(logits, dim=-1))).sum(dim=-1)


def collision_entropy(logits: Tensor) -> Tensor:
    """-log sum_y p_y^2, the Renyi entropy of order 2: (N, C) to (N,), 0 (sure) to log C, never above the entropy."""
    return -(2 * torch.log_softmax(logits, dim=-1)).logsumexp(dim=-1)
