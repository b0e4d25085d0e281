"""Density ratio R(x) = P_source(x) / P_target(x) from a domain classifier (Sec. 3.3).

With equal weight of both domains, a classifier with logit g(x) = log tau_source - log tau_target gives R = exp(g).
A classifier trained to convergence on separable domains sends g to infinity, so g is bounded smoothly, and a
strength says how much of it is believed:  log R = strength * b tanh(g / b),  b = log(bound).
Capped, R is min(R, 1): rows that are more like the source than like the target have R = 1, which is plain training
and prediction; only those unlike the source are made less sure.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import softplus

RatioUse = Literal["capped", "paper"]
RATIO_USES = "capped: R counts as at most 1, and in training by its mean over a batch; paper: as it is, row by row"


def bounded_domain_logit(domain_logit: Tensor, bound: float) -> Tensor:
    """b tanh(g / b) with b = log(bound): near g for small g, within (-b, b) always.

    Args:
        domain_logit: (N,) unbounded logit g of "source".
        bound: largest ratio, above 1.
    """
    limit = math.log(bound)
    return limit * torch.tanh(domain_logit / limit)


def ratio_from_logit(bounded_logit: Tensor, strength: float, *, capped: bool = False) -> Tensor:
    """R = exp(strength * bounded logit): (N,), from bound ** -strength up to bound ** strength, or up to 1.

    Args:
        bounded_logit: (N,) of "source".
        strength: 0 is R = 1.
        capped: whether R is at most 1.
    """
    ratio = torch.exp(strength * bounded_logit)
    return ratio.clamp_max(1.0) if capped else ratio


def domain_loss(logit: Tensor, num_source: int, weights: Tensor | None = None) -> Tensor:
    """Binary cross-entropy of telling source from target, each domain with half of the weight.

    The weight of a domain does not depend on its number of samples, so exp(logit) estimates the density ratio
    without a correction for unequal batches.

    Args:
        logit: (N + M,) of "source", for N source samples and then for M target samples.
        num_source: N.
        weights: (N + M,) of the samples, with mean one in each domain; None: all count alike.
    """
    # In lower precision the shares of the domains would not be halves.
    logit = logit.float() if logit.dtype in (torch.bfloat16, torch.float16) else logit
    sign, share = _signs_and_shares(num_source, len(logit) - num_source, logit.dtype, logit.device)
    return (softplus(sign * logit) * (share if weights is None else share * weights)).sum()


# Batches have few sizes, and networks in front are often so small that each operation of a loss shows.
@lru_cache(maxsize=16)
@torch.inference_mode(False)
def _signs_and_shares(
    num_source: int, num_target: int, dtype: torch.dtype, device: torch.device
) -> tuple[Tensor, Tensor]:
    """(N + M,) what a logit is multiplied by, and the part that a sample has in the loss."""
    sign, share = torch.ones(2, num_source + num_target, dtype=dtype, device=device)
    sign[:num_source] = -1
    share[:num_source] /= 2 * num_source
    share[num_source:] /= 2 * num_target
    return sign, share
