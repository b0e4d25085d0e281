"""Virtual adversarial perturbations (Miyato et al., 2018, Algorithm 1 with one power iteration).

    r = argmax_{|r| = size} KL( p(x) || p(x + r) )

At r = 0 the divergence and its gradient are zero, so its growth is governed by its second derivative H. One power
iteration turns a random direction d into H d, by the gradient at a small step along d.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import normalize

from shiftcal.functional.entropy import prediction_divergence

# Length of the small step relative to the perturbation's: much smaller ones drown in the rounding of float32.
PROBE = 0.1


def virtual_adversarial_perturbation(
    predict: Callable[[Tensor], Tensor],
    inputs: Tensor,
    logits: Tensor,
    *,
    noise: Tensor,
    radius: float,
    scale: Tensor,
) -> Tensor:
    """A perturbation, of the shape of the inputs, along which the prediction changes most.

    Args:
        predict: inputs to logits, differentiable.
        inputs: (N, ...).
        logits: (N, C) of the inputs; taken as given.
        noise: random numbers of the shape of the inputs: the direction that the power iteration starts from.
        radius: root mean square of the perturbation over the dimensions of an input, in units of `scale`. So a
            radius means the same for any number of dimensions and any unit of measurement.
        scale: standard deviation of the inputs, shaped to broadcast over them.
    """
    size = radius * math.sqrt(inputs[0].numel()) * scale
    direction = _unit(noise).requires_grad_()
    with torch.enable_grad():
        divergence = prediction_divergence(logits.detach(), predict(inputs + PROBE * size * direction))
        (gradient,) = torch.autograd.grad(divergence.sum(), direction)
    return size * _unit(gradient)


def _unit(values: Tensor) -> Tensor:
    """Each row with length one, or zero if it is zero; gradients of sure predictions are too small to be squared."""
    rows = values.detach().flatten(1).float()
    largest = rows.abs().amax(dim=1, keepdim=True)
    return normalize(rows / torch.where(largest > 0, largest, torch.ones_like(largest))).view_as(values)
