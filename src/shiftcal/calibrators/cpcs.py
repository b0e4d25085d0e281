"""CPCS: importance-weighted temperature with the squared loss.

Park, Bastani, Weimer, Lee, "Calibrated Prediction with Covariate Shift via Unsupervised Domain Adaptation", AISTATS
2020, arXiv 2003.00343, with the loss of the authors' code:

    T = arg min of  sum_i (w_i + 1/2) || softmax(z_i / T) - 1[y_i] ||^2,    w = 1 / g - 1 cut at U = 1000

with g(x) the probability of "source" that a domain classifier gives. TransCal's comparison with CPCS leaves the 1/2
out (`weight_offset=0`). This is the paper's temperature with importance weights; its learning of features that are
alike in both domains is a matter of training. Deviations: the domain classifier is a logistic
regression whose weights are out of fold (see `importance`) instead of a network and a temperature on held-out data; T
is searched over a grid and refined instead of by gradient steps; labels are smoothed as in `temperature`; T stays
within a factor of two of the temperature with the best likelihood on the same weighted rows. For the squared loss of
a row is bounded: where few rows are held out and nearly all are classified rightly, it hardly tells T = 1 from T = 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from scipy.optimize import minimize_scalar
from torch import Tensor
from torch.nn.functional import one_hot

from shiftcal.calibrators.base import CalibrationData, State
from shiftcal.calibrators.importance import ImportanceWeighted, temperature_state
from shiftcal.core.options import option
from shiftcal.functional.temperature import fit_temperature

# Around the likelihood's temperature: the loss may have several minima, so the grid finds the lowest.
_LOG_GRID = np.linspace(-math.log(2), math.log(2), 9)


@dataclass(frozen=True, kw_only=True)
class Cpcs(ImportanceWeighted):
    """One temperature by the importance-weighted Brier score (Park et al. 2020)."""

    largest_weight: float | None = option(1000.0, "larger weights are cut to this; None: they are not", above=0)
    self_normalize: bool = option(False, "scale the weights to a mean of one, before and after they are cut")
    weight_offset: float = option(
        0.5, "added to each weight; 0 is the version that TransCal compares with", at_least=0
    )

    def fit(self, data: CalibrationData) -> State:
        """Fit the temperature.

        Raises:
            InvalidInputError: no target.
        """
        weights = self.source_weights(data) + self.weight_offset
        return temperature_state(fit_brier_temperature(data.held_out.logits, data.held_out_labels, weights), weights)


def fit_brier_temperature(logits: Tensor, labels: Tensor, weights: Tensor) -> float:
    """The temperature with the lowest weighted Brier score, within a factor of two of the likelihood's.

    Args:
        logits: (N, C).
        labels: (N,) class numbers.
        weights: (N,) of the samples.
    """
    exact, num_classes = logits.double(), logits.shape[1]
    smoothing = 1 / (len(labels) + 1)
    expected = (1 - smoothing) * one_hot(labels, num_classes).double() + smoothing / num_classes

    def loss(log_temperature: float) -> float:
        scores = (torch.softmax(exact * math.exp(-log_temperature), dim=-1) - expected).square().sum(dim=-1)
        return float((weights.double() * scores).mean())

    grid = math.log(fit_temperature(logits, labels, weights)) + _LOG_GRID
    best = int(np.argmin([loss(value) for value in grid]))
    bounds = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
    found = minimize_scalar(loss, bounds=bounds, method="bounded", options={"xatol": 1e-8})
    return math.exp(float(found.x))
