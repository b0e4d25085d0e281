"""The Lagrangian dual of the robust game and the two gradients that training uses (Algorithm 1).

For r = 0 the dual is

    L = E_target[ logsumexp_y( R(x) z_y(x) ) ] - E_source[ z_y(x) ]

Its gradients, by ordinary differentiation:

    ratio network   dL/dR(x_t) = f(x_t) . z(x_t), z held fixed
    task network    dL/dz(x_s) = f(x_s) - 1[y_s], after the change of measure E_target[R ...] = E_source[...]

If the R that is learned is held to the same change of measure, the second term is one of the target that depends on R
too: E_source[ z_y ] = E_target[ R(x) g(x) . z(x) ] with g(x) = P(y | x). The gradient of the ratio network is then

    dL/dR(x_t) = (f(x_t) - g(x_t)) . z(x_t)

which makes R smaller where f is surer than g and larger where it is less sure: L is the cross-entropy of f with
labels from g (for r > 0: 1 + r times that). The published step leaves g out, which lowers R most where the classifier
is sure.

The task gradient needs source data only. R stands in f but not in front, so it is not the gradient of the
cross-entropy of scaled logits; `task_surrogate` has exactly this gradient.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from shiftcal.functional.predictive import RegularizedForm, centred, robust_logits


def target_potential(
    logits: Tensor,
    density_ratio: Tensor,
    label_probabilities: Tensor | None = None,
    *,
    class_regularization: float = 0.0,
) -> Tensor:
    """E_target[ (1 + r) logsumexp(R z / (1 + r)) - R g . z ]: its gradient in R is (f - g) . z, f the inference form.

    Args:
        logits: (N, C) z of target rows.
        density_ratio: (N,) R.
        label_probabilities: (N, C) g, what is known of their labels; None: the second term is left out, as published.
            Logits are centred, which makes the gradient f . z non-negative: descending it only ever makes confident
            target predictions more cautious.
        class_regularization: r.
    """
    smoothing = 1 + class_regularization
    scaled = density_ratio.unsqueeze(-1) * centred(logits)
    potential = smoothing * torch.logsumexp(scaled / smoothing, dim=-1)
    if label_probabilities is not None:
        potential = potential - (label_probabilities * scaled).sum(dim=-1)
    return potential.mean()


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
