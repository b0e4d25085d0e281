"""Temperature scaling (Guo et al., "On Calibration of Modern Neural Networks", ICML 2017, arXiv 1706.04599).

probabilities = softmax(z / T),  T = arg min of the negative log-likelihood of held-out source data
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from shiftcal.calibrators.base import CalibrationData, Calibrator, State
from shiftcal.functional.temperature import fit_temperature
from shiftcal.methods.base import Outputs


@dataclass(frozen=True, kw_only=True)
class Temperature(Calibrator):
    """One temperature for all logits, fitted on held-out source data."""

    def fit(self, data: CalibrationData) -> State:
        """Fit the temperature; the target is not looked at."""
        temperature = fit_temperature(data.held_out.logits, data.held_out_labels)
        return {"temperature": torch.tensor(temperature, dtype=torch.float64)}

    def calibrate(self, outputs: Outputs, state: State) -> Tensor:
        """z / T."""
        return outputs.logits / state["temperature"]
