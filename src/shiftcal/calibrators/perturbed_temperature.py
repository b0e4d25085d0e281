"""Temperature scaling on perturbed data.

Tomani, Gruber, Erdem, Cremers, Buettner, "Post-hoc Uncertainty Calibration for Domain Drift Scenarios", CVPR 2021,
arXiv 2012.10988. Held-out source data are copied with Gaussian noise of ten strengths, at which the accuracy falls in
equal steps from that on clean data to chance, 1 / C; one temperature is fitted to all copies together. The target is
not looked at.

Noise is added to the inputs: see `shiftcal.data.noise`.

The authors search each strength by Nelder-Mead until the accuracy is as wanted, to 3 % of the clean one (5 % at the
last level). Here it is bisection to 3 %, with the same noise at each strength, so that the accuracy falls almost
steadily and what was evaluated for one level serves the next.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from shiftcal.calibrators.base import CalibrationData, Calibrator, State
from shiftcal.core.options import option
from shiftcal.data.inputs import SubsetInputs
from shiftcal.data.noise import FeatureSpread, NoisyInputs
from shiftcal.functional.temperature import fit_temperature
from shiftcal.methods.base import Outputs
from shiftcal.target.row_order import content_order

_FIRST_STRENGTH = 0.1
_MOST_DOUBLINGS = 12
_MOST_BISECTIONS = 8


@dataclass(frozen=True, kw_only=True)
class PerturbedTemperature(Calibrator):
    """One temperature, fitted on held-out source data with noise of several strengths (Tomani et al. 2021)."""

    num_levels: int = option(10, "strengths of noise, the first of them none", at_least=2, at_most=1_000)
    tolerance: float = option(
        0.03, "accepted deviation from a level's accuracy, as a share of the clean one", above=0
    )

    def fit(self, data: CalibrationData) -> State:
        """Find the strengths and fit the temperature to all copies."""
        inputs, predict = data.held_out_inputs, data.predict
        assert inputs is not None
        assert predict is not None
        # Noise goes by row numbers: in this order each row has its own, wherever it stands.
        order = content_order(data.held_out.logits.double(), data.held_out_labels)
        inputs = SubsetInputs(inputs, order)
        labels, logits = data.held_out_labels[order], {0.0: data.held_out.logits[order]}
        spread = FeatureSpread.of(inputs)

        def accuracy(strength: float) -> float:
            if strength not in logits:
                noisy = NoisyInputs(inputs, strength, spread, data.seed)
                logits[strength] = predict(noisy).logits
            return float((logits[strength].argmax(dim=-1) == labels).double().mean())

        strengths = find_strengths(accuracy, self.num_levels, 1 / data.num_classes, self.tolerance)
        copies = torch.cat([logits[strength] for strength in strengths])
        return {
            "temperature": torch.tensor(fit_temperature(copies, labels.repeat(len(strengths))), dtype=torch.float64),
            "strengths": torch.tensor(strengths, dtype=torch.float64),
            "accuracies": torch.tensor([accuracy(strength) for strength in strengths], dtype=torch.float64),
        }

    def calibrate(self, outputs: Outputs, state: State) -> Tensor:
        """z / T."""
        return outputs.logits / state["temperature"]


def find_strengths(
    accuracy: Callable[[float], float], num_levels: int, chance: float, tolerance: float
) -> list[float]:
    """Strengths of noise at which the accuracy falls in equal steps from accuracy(0) to chance, as near as may be."""
    seen = {0.0: accuracy(0.0)}
    full = seen[0.0]
    accepted, lowest = tolerance * full, min(chance, full)
    for doubling in range(_MOST_DOUBLINGS):
        if min(seen.values()) <= lowest + accepted:
            break
        strength = _FIRST_STRENGTH * 2**doubling
        seen[strength] = accuracy(strength)
    strengths = []
    for wanted in np.linspace(full, lowest, num_levels).tolist():
        for _ in range(_MOST_BISECTIONS):
            above = max(strength for strength, reached in seen.items() if reached >= wanted)
            below = min((strength for strength in seen if strength > above), default=math.inf)
            if abs(seen[_nearest(seen, wanted)] - wanted) <= accepted or below == math.inf:
                break
            seen[(above + below) / 2] = accuracy((above + below) / 2)
        strengths.append(_nearest(seen, wanted))
    return strengths


def _nearest(seen: dict[float, float], wanted: float) -> float:
    """The weakest noise among those whose accuracy is nearest to the wanted one."""
    return min(sorted(seen), key=lambda strength: abs(seen[strength] - wanted))
