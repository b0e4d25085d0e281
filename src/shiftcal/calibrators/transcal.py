"""TransCal: a temperature at which the target's confidence is its estimated accuracy.

Wang, Long, Wang, Jordan, "Transferable Calibration with Lower Bias and Variance in Domain Adaptation", NeurIPS 2020,
arXiv 2007.08259. With e the 0/1 errors and r = 1 - e of held-out source data, c their confidence after temperature
scaling, and weights v = w^lambda (lambda in [0, 1] lowers the bias), two control variates lower the variance:

    a_i  = v_i e_i + eta_1 (v_i - 1),        eta_1 = -Cov(v e, v) / Var(v)
    risk = mean of a_i + eta_2 (r_i - c),    eta_2 = -Cov(a, r) / Var(r)
    (T, lambda) = arg min of | mean target confidence at T  -  (1 - risk) |,    T >= 1

That is one equation for two unknowns; which of its solutions is found depends on the search. It is the authors' here,
SLSQP from (2, 1/2), after which T is solved exactly for the lambda that was found. Their weights come from the source
data that the model was trained on; ours from held-out data, out of fold (see `importance`), neither cut nor scaled.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import brentq, minimize
from torch import Tensor

from shiftcal.calibrators.base import CalibrationData, State
from shiftcal.calibrators.importance import ImportanceWeighted, require_target, temperature_state
from shiftcal.core.options import option
from shiftcal.functional.temperature import fit_temperature

_LARGEST_TEMPERATURE = math.exp(7)


@dataclass(frozen=True, kw_only=True)
class TransCal(ImportanceWeighted):
    """One temperature that makes target confidence equal an importance-weighted accuracy (Wang et al. 2020)."""

    largest_weight: float | None = option(None, "larger weights are cut to this; None: they are not", above=0)
    self_normalize: bool = option(False, "scale the weights to a mean of one, before and after they are cut")
    bias_reduction: bool = option(True, "weights to a power that is searched for along with the temperature")
    variance_reduction: bool = option(True, "control variates")
    smallest_temperature: float = option(1.0, "no temperature below this is tried", above=0, at_most=100)

    def fit(self, data: CalibrationData) -> State:
        """Search for temperature and power.

        Raises:
            InvalidInputError: no target.
        """
        target_logits, weights = require_target(data).logits.double(), self.source_weights(data)
        scaled = data.held_out.logits.double() / fit_temperature(data.held_out.logits, data.held_out_labels)
        confidence = mean_confidence(scaled, 1.0)
        errors = (scaled.argmax(dim=-1) != data.held_out_labels).double()

        def accuracy(power: float) -> float:
            return estimate_accuracy(errors, weights**power, confidence if self.variance_reduction else None)

        def gap(point: NDArray[np.float64]) -> float:
            return abs(mean_confidence(target_logits, float(point[0])) - accuracy(float(point[1])))

        power = 1.0
        if self.bias_reduction:
            low = self.smallest_temperature
            bounds = ((low, _LARGEST_TEMPERATURE), (0.0, 1.0))
            power = float(minimize(gap, np.array([max(2.0, low), 0.5]), method="SLSQP", bounds=bounds).x[1])
        temperature = self._solve(target_logits, accuracy(power))
        return temperature_state(temperature, weights**power, power=power, estimated_accuracy=accuracy(power))

    def _solve(self, logits: Tensor, accuracy: float) -> float:
        """The temperature at which the mean confidence (it falls with T) is the accuracy, or the nearest bound."""
        low, high = self.smallest_temperature, _LARGEST_TEMPERATURE
        if mean_confidence(logits, low) <= accuracy:
            return low
        if mean_confidence(logits, high) >= accuracy:
            return high
        return float(brentq(lambda temperature: mean_confidence(logits, temperature) - accuracy, low, high))


def mean_confidence(logits: Tensor, temperature: float) -> float:
    """Mean over the rows of logits (N, C) of the largest probability."""
    return float(torch.softmax(logits / temperature, dim=-1).amax(dim=-1).mean())


def estimate_accuracy(errors: Tensor, weights: Tensor, confidence: float | None) -> float:
    """Estimate the target accuracy from weighted source errors (N,).

    Args:
        errors: (N,) 1 where the prediction is wrong.
        weights: (N,) importance weights.
        confidence: mean calibrated confidence of the source rows, for control variates; None for none.
    """
    risks = weights * errors
    if confidence is not None:
        risks = _controlled(risks, weights, 1.0)
        risks = _controlled(risks, 1 - errors, confidence)
    return 1 - float(risks.mean())


def _controlled(values: Tensor, control: Tensor, expected: float) -> Tensor:
    """The values less their regression on a control variate, whose expectation is known."""
    deviation = control - control.mean()
    variance = deviation.square().mean()
    if float(variance) < 1e-12:
        return values
    return values - (deviation * values).mean() / variance * (control - expected)
