"""Predictive form of distributionally robust learning (arXiv 2010.05784, Eq. 1, Theorem 1, Eq. 8).

With task logits z, density ratio R = P_source(x) / P_target(x) and class regularisation r:

    plain               f(y|x) = softmax(R z)
    class-regularised   f(y|x) = softmax((R z + r 1[y]) / (r 1[y] + 1))

where 1[y] is the one-hot label in training and the all-one vector at inference, so that inference is
softmax(R z / (1 + r)). Limits: R = 1, r = 0 is the ordinary softmax, R -> 0 is uniform, R -> inf is the arg max.

Logits mean the same after adding a constant to all classes of a sample. The label-dependent denominator of the
training form, and the dual of `shiftcal.functional.dual`, are sensitive to that constant, so logits are centred
over the classes first and every function here gives the same result for z and z + constant.
"""

from __future__ import annotations

import torch
from torch import Tensor


def centred(logits: Tensor) -> Tensor:
    """Logits (N, C) less their mean over the classes."""
    return logits - logits.mean(dim=-1, keepdim=True)


def robust_logits(
    logits: Tensor,
    density_ratio: Tensor,
    *,
    class_regularization: float = 0.0,
    labels: Tensor | None = None,
) -> Tensor:
    """Logits of the predictive form, of which f is the softmax.

    Args:
        logits: (N, C) task logits z.
        density_ratio: (N,) positive ratio R.
        class_regularization: r in [0, 1].
        labels: (N,) class numbers for the training form; None for the inference form.

    Returns:
        (N, C) logits.
    """
    scaled = density_ratio.unsqueeze(-1) * centred(logits)
    if labels is None:
        return scaled / (1 + class_regularization)
    regularization = class_regularization * one_hot(labels, scaled)
    return (scaled + regularization) / (regularization + 1)


def robust_probabilities(
    logits: Tensor,
    density_ratio: Tensor,
    *,
    class_regularization: float = 0.0,
    labels: Tensor | None = None,
) -> Tensor:
    """The predictive form f (N, C); arguments as for `robust_logits`."""
    scaled = robust_logits(logits, density_ratio, class_regularization=class_regularization, labels=labels)
    return torch.softmax(scaled, dim=-1)


def one_hot(labels: Tensor, like: Tensor) -> Tensor:
    """Labels (N,) as rows of the shape, type and device of `like` (N, C)."""
    return torch.zeros_like(like).scatter_(-1, labels.unsqueeze(-1), 1.0)
