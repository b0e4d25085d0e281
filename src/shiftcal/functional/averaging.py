"""One prediction from several."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def log_mean_probabilities(logits: Tensor) -> Tensor:
    """log( mean_k softmax(logits_k) ): (K, N, C) to (N, C), logits of which the softmax is the mean probability."""
    return torch.logsumexp(torch.log_softmax(logits, dim=-1), dim=0) - math.log(len(logits))
