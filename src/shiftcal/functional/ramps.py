"""Weights of a loss that grow with the share of training that lies behind, from 0 to 1."""

from __future__ import annotations

import math


def linear_ramp(progress: float, start: float, end: float) -> float:
    """0 up to `start`, then evenly to 1 at `end` (Lee 2013, Eq. 16)."""
    return min(max((progress - start) / (end - start), 0.0), 1.0)


def gaussian_ramp(progress: float, length: float) -> float:
    """exp( -5 (1 - progress / length)^2 ) up to `length`, then 1 (Laine and Aila, ICLR 2017)."""
    return math.exp(-5 * (1 - min(progress / length, 1.0)) ** 2)


def cosine_ramp(progress: float) -> float:
    """1/2 - cos( min(pi, 2 pi progress) ) / 2: from 0 to 1 over the first half (Berthelot et al., ICLR 2022)."""
    return (1 - math.cos(math.pi * min(2 * progress, 1.0))) / 2
