"""Predictive form of distributionally robust learning (arXiv 2010.05784, Eq. 1, Theorem 1, Eq. 8).

With task logits z, density ratio R = P_source(x) / P_target(x) and class regularisation r:

    plain               f(y|x) = softmax(R z)
    class-regularised   f(y|x) = softmax((R z + r 1[y]) / (r 1[y] + 1))

where 1[y] is the one-hot label in training and the all-one vector at inference, so that inference is
softmax(R z / (1 + r)). Limits: R = 1, r = 0 is the ordinary softmax, R -> 0 is uniform, R -> inf is the arg max.

Logits mean the same after adding a constant to all classes of a sample. The label-dependent denominator of the
training form, and the dual of `shiftcal.functional.dual`, are sensitive to that constant, so logits are centred
over the classes first and every function here gives the same result for z and z + constant.

Theorem 1 is to be the maximiser of a concave problem, which for r > 0 it is not in training. Of

    maximise over f   sum_k R z_k f_k - (1 + r 1[y]_k) f_k log f_k   subject to sum_k f_k = 1

it is f_k = exp((R z_k + lambda) / (1 + r 1[y]_k) - 1), where the multiplier lambda(x) of the constraint stands above
the label-dependent denominator, so that a softmax can't take its place (`maximizer_logits`). At inference, where all
denominators are equal, both are the same.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import softplus

RegularizedForm = Literal["paper", "exact"]

# Each squares the error, which for r up to 1 is below 0.1 after the first; the differentiated one comes on top.
_NEWTON_STEPS = 4


def centred(logits: Tensor) -> Tensor:
    """Logits (N, C) less their mean over the classes."""
    return logits - logits.mean(dim=-1, keepdim=True)


def probabilities_of(logits: Tensor) -> Tensor:
    """Softmax (N, C) in double precision, for the CPU: for ten classes torch's own takes three times as long."""
    logits = logits.double()
    odds = (logits - logits.amax(dim=-1, keepdim=True)).exp_()
    return odds.div_(odds.sum(dim=-1, keepdim=True))


def robust_logits(
    logits: Tensor,
    density_ratio: Tensor,
    *,
    class_regularization: float = 0.0,
    labels: Tensor | None = None,
    form: RegularizedForm = "paper",
) -> Tensor:
    """Logits of the predictive form, of which f is the softmax.

    Args:
        logits: (N, C) task logits z.
        density_ratio: (N,) positive ratio R.
        class_regularization: r in [0, 1].
        labels: (N,) class numbers for the training form; None for the inference form.
        form: of training, as Theorem 1 has it or the exact maximiser; the same for r = 0.

    Returns:
        (N, C) logits.
    """
    scaled = density_ratio.unsqueeze(-1) * centred(logits)
    if class_regularization == 0:  # every form is this one
        return scaled
    if labels is None:
        return scaled / (1 + class_regularization)
    if form == "exact":
        return maximizer_logits(scaled, labels, class_regularization)
    regularization = class_regularization * one_hot(labels, scaled)
    return (scaled + regularization) / (regularization + 1)


def maximizer_logits(scaled: Tensor, labels: Tensor, class_regularization: float) -> Tensor:
    """Logits of the exact maximiser in training, from R z (N, C).

    The classes without the label keep R z, and that with it has the log odds t against them that solve

        t - r softplus(-t) = R z_y - logsumexp_{k != y}(R z_k) - r

    whose left side rises with a slope between 1 and 1 + r, so that Newton's method finds t from anywhere.
    """
    own = labels.unsqueeze(-1)
    others = scaled.scatter(-1, own, -torch.inf).logsumexp(dim=-1, keepdim=True)
    wanted = scaled.gather(-1, own) - others - class_regularization
    log_odds = wanted.detach()
    for _ in range(_NEWTON_STEPS):
        log_odds = _newton_step(log_odds, wanted.detach(), class_regularization)
    # The last step is differentiated: at the solution its derivative is that of the solution.
    return scaled.scatter(-1, own, others + _newton_step(log_odds, wanted, class_regularization))


def _newton_step(log_odds: Tensor, wanted: Tensor, class_regularization: float) -> Tensor:
    slope = 1 + class_regularization * torch.sigmoid(-log_odds)
    return log_odds - (log_odds - class_regularization * softplus(-log_odds) - wanted) / slope


def robust_probabilities(
    logits: Tensor,
    density_ratio: Tensor,
    *,
    class_regularization: float = 0.0,
    labels: Tensor | None = None,
    form: RegularizedForm = "paper",
) -> Tensor:
    """The predictive form f (N, C); arguments as for `robust_logits`."""
    scaled = robust_logits(logits, density_ratio, class_regularization=class_regularization, labels=labels, form=form)
    return torch.softmax(scaled, dim=-1)


def one_hot(labels: Tensor, like: Tensor) -> Tensor:
    """Labels (N,) as rows of the shape, type and device of `like` (N, C)."""
    return torch.zeros_like(like).scatter_(-1, labels.unsqueeze(-1), 1.0)
