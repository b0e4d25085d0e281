"""Density ratio R(x) = P_source(x) / P_target(x) from a domain classifier (Sec. 3.3).

With equal weight of both domains, a classifier with logit g(x) = log tau_source - log tau_target gives R = exp(g).
A classifier trained to convergence on separable domains sends g to infinity, so g is bounded smoothly, and a
strength says how much of it is believed:  log R = strength * b tanh(g / b),  b = log(bound).
With a ceiling R is min(R, ceiling). At a ceiling of 1 rows that are more like the source than like the target have
R = 1, which is plain training and prediction; only those unlike the source are made less sure.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn.functional import softplus


def bounded_domain_logit(domain_logit: Tensor, bound: float) -> Tensor:
    """b tanh(g / b) with b = log(bound): near g for small g, within (-b, b) always.

    Args:
        domain_logit: (N,) unbounded logit g of "source".
        bound: largest ratio, above 1.
    """
    limit = math.log(bound)
    return limit * torch.tanh(domain_logit / limit)


def ratio_from_logit(bounded_logit: Tensor, strength: float, ceiling: float | None = None) -> Tensor:
    """R = min(exp(strength * bounded logit), ceiling): (N,), from bound ** -strength up to bound ** strength.

    Args:
        bounded_logit: (N,) of "source".
        strength: 0 is R = 1.
        ceiling: largest R, above 0; None: none but the bound.
    """
    ratio = torch.exp(strength * bounded_logit)
    return ratio if ceiling is None else ratio.clamp_max(ceiling)


def domain_loss(
    source_logit: Tensor,
    target_logit: Tensor,
    source_weights: Tensor | None = None,
    target_weights: Tensor | None = None,
) -> Tensor:
    """Binary cross-entropy of telling source from target, each domain with half of the weight.

    The weight of a domain does not depend on its number of samples, so exp(logit) estimates the density ratio
    without a correction for unequal batches.

    Args:
        source_logit: (N,) logit of "source" for source samples.
        target_logit: (M,) the same for target samples.
        source_weights: (N,) of the source samples, with mean one; None: all count alike.
        target_weights: (M,) likewise.
    """
    source_losses, target_losses = softplus(-source_logit), softplus(target_logit)
    if source_weights is not None:
        source_losses = source_weights * source_losses
    if target_weights is not None:
        target_losses = target_weights * target_losses
    return (source_losses.mean() + target_losses.mean()) / 2
