"""Gradient reversal (Ganin et al., JMLR 17, 2016): what one part of a network minimises, the part before maximises.

R(x) = x,   dR/dx = -scale I
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor


def reverse_gradient(values: Tensor, scale: float) -> Tensor:
    """The values as they are; in the backward pass their gradient is multiplied by -scale."""
    reversed_values: Tensor = _GradientReversal.apply(values, scale)  # type: ignore[no-untyped-call]
    return reversed_values


def reversal_scale(progress: float) -> float:
    """lambda_p = 2 / (1 + exp(-10 p)) - 1: from 0 at p = 0 to almost 1 at p = 1.

    So a discriminator that knows nothing yet does not disturb the features.
    """
    return 2 / (1 + math.exp(-10 * progress)) - 1


class _GradientReversal(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, scale: float) -> Tensor:
        ctx.scale = scale
        return values.view_as(values)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return -ctx.scale * gradients[0], None
