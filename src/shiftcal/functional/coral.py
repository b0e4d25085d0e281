"""CORAL: the distance between the second-order statistics of two domains (Sun and Saenko, 2016, Eq. 1 to 3)."""

from __future__ import annotations

from torch import Tensor


def coral_loss(source_values: Tensor, target_values: Tensor) -> Tensor:
    """|| C_source - C_target ||_F^2 / (4 d^2), with the covariances C of (N, d) and (M, d); a scalar."""
    difference = _covariance(source_values) - _covariance(target_values)
    # The mean is the division by d^2.
    return difference.square().mean() / 4


def _covariance(values: Tensor) -> Tensor:
    """(N, d) to (d, d), unbiased; zero for a single row, which says nothing of a spread."""
    centred = values - values.mean(dim=0)
    return centred.T @ centred / max(len(values) - 1, 1)
