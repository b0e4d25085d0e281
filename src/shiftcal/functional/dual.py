"""The Lagrangian dual of the robust game and the two gradients that training uses (Algorithm 1).

For r = 0 the dual is

    L = E_target[ logsumexp_y( R(x) z_y(x) ) ] - E_source[ z_y(x) ]

Its gradients, by ordinary differentiation:

    ratio network   dL/dR(x_t) = f(x_t) . z(x_t), z held fixed
    task network    dL/dz(x_s) = f(x_s) - 1[y_s], after the change of measure E_target[R ...] = E_source[...]

The task gradient needs source data only. R stands in f but not in front, so it is not the gradient of the
cross-entropy of scaled logits; `task_surrogate` has exactly this gradient.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from shiftcal.functional.predictive import RegularizedForm, centred, robust_logits


def target_potential(logits: Tensor, density_ratio: Tensor, *, class_regularization: float = 0.0) -> Tensor:
    """E_target[ (1 + r) logsumexp(R z / (1 + r)) ], whose gradient in R is f . z with f the inference form.

    Logits are centred, which makes that gradient non-negative: descending it only ever makes confident target
    predictions more cautious.
    """
    smoothing = 1 + class_regularization
    scaled = density_ratio.unsqueeze(-1) * centred(logits) / smoothing
    return smoothing * torch.logsumexp(scaled, dim=-1).mean()


def task_surrogate(
    logits: Tensor,
    labels: Tensor,
    density_ratio: Tensor,
    *,
    class_regularization: float = 0.0,
    form: RegularizedForm = "paper",
) -> Tensor:
    """A scalar whose gradient in the source logits is (f - 1[y]) / N, and whose value is the cross-entropy of f.

    It is that of z + stop_gradient(robust logits - z): the logits of f, which move as z does.
    """
    with torch.no_grad():
        robust = robust_logits(
            logits, density_ratio, class_regularization=class_regularization, labels=labels, form=form
        )
        scaling = robust - logits
    return cross_entropy(logits + scaling, labels)
