"""Temperatures of logits by the likelihood of labels (Guo et al., ICML 2017).

A small held-out set is often classified without an error; its likelihood is then highest at T = 0, where every
prediction is certain. As Platt (1999) does for his scaling, the labels are smoothed by 1 / (N + 1), which rules that
out and vanishes as N grows.
"""

from __future__ import annotations

import math

import torch
from scipy.optimize import minimize_scalar
from torch import Tensor
from torch.nn.functional import cross_entropy

# The search covers temperatures from exp(-7) to exp(7).
_LOG_LIMIT = 7.0


def fit_temperature(logits: Tensor, labels: Tensor, weights: Tensor | None = None) -> float:
    """The temperature with the lowest (weighted) negative log-likelihood.

    The loss is convex in 1/T, so a bounded search in one dimension finds its only minimum.

    Args:
        logits: (N, C).
        labels: (N,) class numbers.
        weights: (N,) of the samples; equal if None.
    """
    exact = logits.double()
    importance = torch.ones(len(logits), dtype=torch.float64) if weights is None else weights.double()

    smoothing = 1 / (len(labels) + 1)

    def loss(log_inverse: float) -> float:
        scaled = exact * math.exp(log_inverse)
        losses = cross_entropy(scaled, labels, reduction="none", label_smoothing=smoothing)
        return float((importance * losses).mean())

    found = minimize_scalar(loss, bounds=(-_LOG_LIMIT, _LOG_LIMIT), method="bounded", options={"xatol": 1e-8})
    return math.exp(-float(found.x))
