"""Temperature scaling of importance-weighted held-out source data.

    T = arg min of  sum_i w(x_i) NLL(softmax(z_i / T), y_i),    w(x) = P_target(x) / P_source(x)

Under covariate shift the weighted likelihood is that of the target (Shimodaira, "Improving predictive inference under
covariate shift by weighting the log-likelihood function", 2000). See `importance` for the weights. With weights of
one, such as those of a model without a density ratio (`ratio="model"`), it is temperature scaling.
"""

from __future__ import annotations

from dataclasses import dataclass

from shiftcal.calibrators.base import CalibrationData, State
from shiftcal.calibrators.importance import ImportanceWeighted, temperature_state
from shiftcal.functional.temperature import fit_temperature


@dataclass(frozen=True, kw_only=True)
class ImportanceWeightedTemperature(ImportanceWeighted):
    """One temperature, fitted on source data that count as much as they are target-like."""

    def fit(self, data: CalibrationData) -> State:
        """Fit the temperature.

        Raises:
            InvalidInputError: no target.
        """
        weights = self.source_weights(data)
        return temperature_state(fit_temperature(data.held_out.logits, data.held_out_labels, weights), weights)
