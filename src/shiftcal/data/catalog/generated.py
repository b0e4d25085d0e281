"""Two Gaussians in the plane with one rule for the labels: a covariate shift whose densities are known.

    source   x ~ N((-1, 0), diag(1, 1)),     target   x ~ N((1.5, 0), diag(0.6, 1))
    both     P(y = 1 | x) = 1 / (1 + exp(-4 (x_2 - sin(1.5 x_1))))

The random numbers come from a fixed seed and numpy's frozen legacy generator: the same on every machine.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import expit

from shiftcal.data.catalog.entries import Selection, Source
from shiftcal.data.domains import LabelledDomain
from shiftcal.data.inputs import ArrayInputs

NUM_ROWS = 2_000


class Gaussian(NamedTuple):
    """With independent coordinates."""

    mean: tuple[float, float]
    variance: tuple[float, float]
    seed: int

    def log_density(self, points: NDArray[np.float64]) -> NDArray[np.float64]:
        """(N,) at points (N, 2)."""
        variance = np.array(self.variance)
        squares = (points - np.array(self.mean)) ** 2 / variance
        return np.asarray(-0.5 * (squares + np.log(2 * np.pi * variance)).sum(axis=1))


GAUSSIANS = {
    "source": Gaussian((-1.0, 0.0), (1.0, 1.0), 0),
    "target": Gaussian((1.5, 0.0), (0.6, 1.0), 1),
}


def label_probability(points: NDArray[np.float64]) -> NDArray[np.float64]:
    """P(y = 1 | x) (N,)."""
    return np.asarray(expit(4 * (points[:, 1] - np.sin(1.5 * points[:, 0]))))


class GaussianShift(Source):
    """Generated where it is asked for."""

    def find(self, root: Path, selection: Selection) -> Path:  # noqa: ARG002 - it is nowhere
        """This module."""
        return Path(__file__)

    def expected(self, root: Path, selection: Selection) -> str:  # noqa: ARG002
        """See `Source.expected`."""
        return "generated"

    def load(self, place: Path, selection: Selection) -> LabelledDomain:  # noqa: ARG002
        """See `Source.load`."""
        gaussian = GAUSSIANS[selection.domain]
        random = np.random.RandomState(gaussian.seed)
        points = random.normal(gaussian.mean, np.sqrt(gaussian.variance), (NUM_ROWS, 2))
        labels = (random.uniform(size=NUM_ROWS) < label_probability(points)).astype(np.int64)
        return LabelledDomain(selection.title, ArrayInputs(torch.from_numpy(points).float()), labels, (0, 1))
