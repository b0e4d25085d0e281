"""Vector scaling (Guo et al., "On Calibration of Modern Neural Networks", ICML 2017, arXiv 1706.04599).

    probabilities = softmax(w * z + b),  w and b (C,) = arg min of the negative log-likelihood of held-out source data

The search starts at w = 1 / T of temperature scaling and b = 0. Two deviations from the paper: labels are smoothed by
1 / (N + 1), as for the temperature, without which b is infinite for a class that the held-out data lack; and logits
are centred over the classes, so that the constant per row that they are free in does not matter.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from shiftcal.calibrators.base import CalibrationData, Calibrator, State
from shiftcal.functional.linear_scaling import centred, class_variances, minimize_loss, smoothed_loss
from shiftcal.functional.temperature import fit_temperature
from shiftcal.methods.base import Outputs


@dataclass(frozen=True, kw_only=True)
class Vector(Calibrator):
    """One scale and one bias for each class, fitted on held-out source data."""

    def fit(self, data: CalibrationData) -> State:
        """Fit scales and biases; the target is not looked at."""
        logits, labels = centred(data.held_out.logits), data.held_out_labels
        scale = torch.full((data.num_classes,), 1 / fit_temperature(logits, labels), dtype=torch.float64)

        def loss(parameters: Tensor) -> Tensor:
            scale, bias = parameters.chunk(2)
            return smoothed_loss(logits * scale + bias, labels)

        spread = class_variances(logits * scale)
        curvature = torch.cat([(spread * logits.square()).mean(dim=0), spread.mean(dim=0)])
        start = torch.cat([scale, torch.zeros_like(scale)])
        scale, bias = minimize_loss(loss, start, curvature, num_products=logits.numel()).chunk(2)
        return {"scale": scale.clone(), "bias": bias.clone()}

    def calibrate(self, outputs: Outputs, state: State) -> Tensor:
        """w * z + b."""
        scaled = centred(outputs.logits) * state["scale"] + state["bias"]
        return scaled.to(outputs.logits.dtype)
