"""Mean-field Gaussian weights of a linear layer (Blundell et al., 2015; Kingma et al., 2015)."""

from __future__ import annotations

import torch
from torch import Tensor


def gaussian_divergence(mean: Tensor, deviation: Tensor, prior_deviation: float) -> Tensor:
    """KL( N(mean, deviation^2) || N(0, prior_deviation^2) ), summed over all weights: a scalar.

    For each weight  -log(s) + (s^2 + (m / prior)^2 - 1) / 2  with s = deviation / prior.
    """
    relative = deviation / prior_deviation
    return (-relative.log() + (relative.square() + (mean / prior_deviation).square() - 1) / 2).sum()


def activation_deviation(features: Tensor, deviation: Tensor, bias_deviation: Tensor) -> Tensor:
    """Standard deviation (N, C) of the activations that independent Gaussian weights give (local reparameterisation).

    Args:
        features: (N, F).
        deviation: (C, F) of the weights.
        bias_deviation: (C,) of the biases.
    """
    return torch.sqrt(features.square() @ deviation.square().T + bias_deviation.square())
