"""Log density ratio of two Gaussians, from their means and covariances or from moments of many inputs.

For densities N(m_s, S_s) and N(m_t, S_t) it is a quadratic function of the input:

    log P_s(x) / P_t(x) = x' A x + b' x + c,
    A = (S_t^-1 - S_s^-1) / 2,   b = S_s^-1 m_s - S_t^-1 m_t,
    c = (m_t' S_t^-1 m_t - m_s' S_s^-1 m_s + log|S_t| - log|S_s|) / 2
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

# Keeps covariances of constant inputs invertible.
_SMALLEST_VARIANCE = 1e-6


class Moments(NamedTuple):
    """First and second moments of a sample: E[x] (D,) and E[x x'] (D, D)."""

    mean: Tensor
    second: Tensor

    @property
    def covariance(self) -> Tensor:
        """E[x x'] - E[x] E[x]'."""
        return self.second - torch.outer(self.mean, self.mean)


class QuadraticForm(NamedTuple):
    """x' A x + b' x + c, with A (D, D), b (D,) and c a scalar."""

    quadratic: Tensor
    linear: Tensor
    constant: Tensor

    def __call__(self, inputs: Tensor) -> Tensor:
        """Values (N,) at inputs (N, D)."""
        return ((inputs @ self.quadratic) * inputs).sum(dim=-1) + inputs @ self.linear + self.constant

    def __sub__(self, other: QuadraticForm) -> QuadraticForm:
        """The difference of the two functions."""
        return QuadraticForm(*(ours - theirs for ours, theirs in zip(self, other, strict=True)))


def gaussian_log_density(mean: Tensor, covariance: Tensor) -> QuadraticForm:
    """log N(x; mean, covariance), up to a constant that all densities of the same dimension share.

    Args:
        mean: (D,).
        covariance: (D, D), to which a millionth of the identity is added.
    """
    covariance = covariance + _SMALLEST_VARIANCE * torch.eye(len(mean), dtype=mean.dtype, device=mean.device)
    precision = torch.linalg.inv(covariance)
    constant = -(mean @ precision @ mean + torch.logdet(covariance)) / 2
    return QuadraticForm(-precision / 2, precision @ mean, constant)


def gaussian_log_ratio(
    source: Moments, target: Moments, *, num_components: int, shrinkage: float = 0.0
) -> QuadraticForm:
    """log P_source / P_target as a function of all D inputs that varies within the leading components only.

    Args:
        source, target: moments of the two samples, in float64 for inputs far from the origin.
        num_components: principal components, of both samples taken with equal weight, to which the inputs are
            reduced; all where there are fewer inputs.
        shrinkage: weight of the multiple of the identity with the same trace in each covariance.
    """
    both = Moments(*((first + second) / 2 for first, second in zip(source, target, strict=True)))
    basis = torch.linalg.eigh(both.covariance).eigenvectors[:, -num_components:]
    ours, theirs = (
        gaussian_log_density(basis.T @ sample.mean, _shrunk(basis.T @ sample.covariance @ basis, shrinkage))
        for sample in (source, target)
    )
    reduced = ours - theirs
    return QuadraticForm(basis @ reduced.quadratic @ basis.T, basis @ reduced.linear, reduced.constant)


def _shrunk(covariance: Tensor, shrinkage: float) -> Tensor:
    identity = torch.eye(len(covariance), dtype=covariance.dtype, device=covariance.device)
    return (1 - shrinkage) * covariance + shrinkage * covariance.diagonal().mean() * identity
