"""Whether all classes are predicted about equally often in a batch."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def class_balance_loss(logits: Tensor) -> Tensor:
    """-mean_y log( mean_n p_ny ) of softmax predictions: (N, C) to a scalar, log C at least, where all are equal."""
    log_probabilities = torch.log_softmax(logits, dim=-1)
    return math.log(len(logits)) - log_probabilities.logsumexp(dim=0).mean()
