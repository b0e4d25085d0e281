"""Inputs with Gaussian noise, after Tomani et al., CVPR 2021, arXiv 2012.10988.

Images, in [0, 1], are cut to that range afterwards, as by the authors. For features, which the paper does not have,
noise is in units of each one's standard deviation, to which the sum is scaled back: without that, noise that is
strong enough for chance accuracy would send networks far beyond any data.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from shiftcal.data.inputs import Inputs
from shiftcal.data.randomness import seeded_generator


class FeatureSpread(NamedTuple):
    """Mean and standard deviation (D,) of features."""

    mean: Tensor
    deviation: Tensor

    @classmethod
    def of(cls, inputs: Inputs) -> FeatureSpread | None:
        """Those of the inputs; None for images."""
        if inputs.kind == "images":
            return None
        values = inputs.fetch(np.arange(len(inputs), dtype=np.int64))
        return cls(values.mean(dim=0), values.std(dim=0, correction=0))


class NoisyInputs(Inputs):
    """Other inputs with Gaussian noise, which depends on the seed and the row and is multiplied by the strength."""

    def __init__(self, base: Inputs, strength: float, spread: FeatureSpread | None, seed: int) -> None:
        self.base = base
        self.strength = strength
        self.spread = spread
        self.seed = seed
        self.shape = base.shape

    def __len__(self) -> int:
        return len(self.base)

    def fetch(self, rows: NDArray[np.int64]) -> Tensor:
        """See `Inputs.fetch`."""
        generators = [seeded_generator(self.seed, int(row)) for row in rows]
        noise = self.strength * torch.stack([torch.randn(self.shape, generator=each) for each in generators])
        clean = self.base.fetch(rows)
        if self.spread is None:
            return (clean + noise).clamp(0, 1)
        mean, deviation = self.spread
        return mean + (clean - mean + deviation * noise) / math.sqrt(1 + self.strength**2)
