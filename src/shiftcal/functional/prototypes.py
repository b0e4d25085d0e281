"""Losses of features that are to gather around prototypes of classes, and around each other (Qiu et al., 2021)."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, normalize

from shiftcal.functional.entropy import prediction_entropy

# A prediction that has become certain must not make the regulariser infinite.
_LEAST_PROBABILITY = 1e-4


def prototype_logits(features: Tensor, prototypes: Tensor, temperature: float) -> Tensor:
    """Cosine of (N, F) features with (C, F) prototypes, divided by the temperature: (N, C)."""
    return normalize(features, dim=-1) @ normalize(prototypes, dim=-1).T / temperature


def prototype_contrast(logits: Tensor, labels: Tensor, weights: Tensor) -> Tensor:
    """mean_i w_i cross_entropy(softmax(logits_i), y_i): towards the own prototype and away from all others; a scalar.

    Args:
        logits: (N, C) of `prototype_logits`.
        labels: (N,) class numbers.
        weights: (N,) confidence in the labels.
    """
    return (weights * cross_entropy(logits, labels, reduction="none")).mean()


def early_learning_loss(logits: Tensor, remembered: Tensor) -> Tensor:
    """mean_i log(1 - <t_i, softmax(logits_i)>): smaller, the nearer predictions stay to what was learned early.

    Liu, Niles-Weed, Razavian, Fernandez-Granda, "Early-Learning Regularization Prevents Memorization of Noisy
    Labels", NeurIPS 2020.

    Args:
        logits: (N, C).
        remembered: (N, C) t, a moving average of earlier predictions for the same rows.
    """
    probabilities = torch.softmax(logits, dim=-1).clamp(_LEAST_PROBABILITY, 1 - _LEAST_PROBABILITY)
    return (1 - (remembered * probabilities).sum(dim=-1)).log().mean()


def neighbour_entropy(features: Tensor, temperature: float) -> Tensor:
    """mean_i H( softmax_{j != i} cos(f_i, f_j) / temperature ): small where each row has few near neighbours.

    Saito, Kim, Sclaroff, Saenko, "Universal Domain Adaptation through Self-Supervision", NeurIPS 2020.

    Args:
        features: (N, F); fewer than two rows have no neighbours and give 0.
        temperature: above 0.
    """
    num_rows = len(features)
    if num_rows < 2:
        return features.sum() * 0
    directions = normalize(features, dim=-1)
    others = ~torch.eye(num_rows, dtype=torch.bool, device=features.device)
    similarities = (directions @ directions.T)[others].view(num_rows, num_rows - 1)
    return prediction_entropy(similarities / temperature).mean()
