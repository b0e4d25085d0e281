"""What scalings of logits with a bias for each class share: the loss, and its minimum by L-BFGS in float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize
from torch import Tensor
from torch.nn.functional import cross_entropy

_MOST_ITERATIONS, _FEWEST_ITERATIONS = 1000, 50
# Products in all iterations together: a few minutes. A search that ends early ends between temperature scaling, where
# it starts, and the best parameters.
_MOST_PRODUCTS = 10**10
_LEAST_CURVATURE = 1e-6


def centred(logits: Tensor) -> Tensor:
    """Logits (N, C) in float64 with mean zero over the classes.

    Logits are defined up to a constant per row; scaled class by class, that constant would change the probabilities.
    """
    exact = logits.double()
    return exact - exact.mean(dim=-1, keepdim=True)


def smoothed_loss(logits: Tensor, labels: Tensor) -> Tensor:
    """Mean negative log-likelihood with labels smoothed by 1 / (N + 1), as in `temperature`.

    The smoothing keeps the best parameters finite if the data are classified without an error or lack a class.
    """
    return cross_entropy(logits, labels, label_smoothing=1 / (len(labels) + 1))


def class_variances(logits: Tensor) -> Tensor:
    """p (1 - p) (N, C): the second derivatives of the loss of each row by its logits."""
    probabilities = torch.softmax(logits, dim=-1)
    return probabilities * (1 - probabilities)


def minimize_loss(loss: Callable[[Tensor], Tensor], start: Tensor, curvature: Tensor, *, num_products: int) -> Tensor:
    """The parameters (P,) in float64 at which a smooth loss is lowest, by L-BFGS from `start`.

    Args:
        loss: of the parameters.
        start: (P,).
        curvature: (P,) rough second derivatives. The search is in units of their inverse square roots, without which
            it crawls where penalties are strong or classes rare.
        num_products: that one look at the loss takes; the more, the fewer iterations there are at most.
    """
    unit = curvature.clamp_min(curvature.max() * _LEAST_CURVATURE).rsqrt()

    def value_and_gradient(values: NDArray[np.float64]) -> tuple[float, NDArray[Any]]:
        scaled = torch.from_numpy(values.copy()).requires_grad_()
        with torch.enable_grad():
            value = loss(scaled * unit)
            (gradient,) = torch.autograd.grad(value, scaled)
        return float(value.detach()), gradient.numpy()

    most_iterations = min(max(_MOST_PRODUCTS // num_products, _FEWEST_ITERATIONS), _MOST_ITERATIONS)
    found = minimize(
        value_and_gradient,
        (start / unit).numpy(),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": most_iterations, "ftol": 1e-10, "gtol": 1e-6},
    )
    return torch.from_numpy(np.asarray(found.x, dtype=np.float64)) * unit
