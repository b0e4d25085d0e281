"""Log density ratio of two Gaussians that are fitted to moments, in the leading principal components.

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
    ours, theirs = (_gaussian_log_density(sample, basis, shrinkage) for sample in (source, target))
    return QuadraticForm(*(first - second for first, second in zip(ours, theirs, strict=True)))


def _gaussian_log_density(sample: Moments, basis: Tensor, shrinkage: float) -> QuadraticForm:
    """Up to a constant that all densities of the same dimension share."""
    mean, covariance = basis.T @ sample.mean, basis.T @ sample.covariance @ basis
    identity = torch.eye(len(mean), dtype=mean.dtype, device=mean.device)
    spherical = covariance.diagonal().mean() * identity
    covariance = (1 - shrinkage) * covariance + shrinkage * spherical + _SMALLEST_VARIANCE * identity
    precision = torch.linalg.inv(covariance)
    return QuadraticForm(
        -basis @ precision @ basis.T / 2,
        basis @ precision @ mean,
        -(mean @ precision @ mean + torch.logdet(covariance)) / 2,
    )
