"""Importance weights w(x) = P_target(x) / P_source(x) of held-out source rows, which several calibrators share.

`ratio` says where they come from:

- an estimator of `shiftcal.target.density_ratios` on features, by default a logistic regression of the domain. Each
  row's weight is that of an estimate made without it: one that has seen the row tells it from the target too well,
  and the weights of all rows fall towards zero.
- "model": 1 / `density_ratio` of the model itself. A method that models no shift says 1 everywhere, and weighted
  temperature scaling is then temperature scaling.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from shiftcal.calibrators.base import CalibrationData, Calibrator, State
from shiftcal.core.errors import InvalidInputError, UnknownNameError
from shiftcal.core.options import option
from shiftcal.methods.base import Outputs
from shiftcal.target.density_ratios import DENSITY_RATIOS, DensityRatioEstimator, density_ratio_estimator
from shiftcal.target.density_ratios.checks import MIN_ROWS, check_features
from shiftcal.target.density_ratios.diagnostics import effective_sample_share
from shiftcal.target.density_ratios.logistic import Logistic
from shiftcal.target.row_order import stratified_folds

_MODEL = "model"
_NUM_FOLDS = 5
# Log weights of the model or of a logistic regression beyond this are no more than the mark of separable domains; it
# keeps the weights finite. The other estimators have a closer bound of their own.
_LOG_LIMIT = 30.0


@dataclass(frozen=True, kw_only=True)
class ImportanceWeighted(Calibrator):
    """Base of the calibrators that fit a temperature with importance weights."""

    ratio: str = option(
        "logistic", f"weights by 1 / the model's own density ratio (model) or by one of: {', '.join(DENSITY_RATIOS)}"
    )
    ratio_penalty: float = option(1.0, "L2 penalty of the logistic regression (scikit-learn's 1 / C)", above=0)
    largest_weight: float | None = option(10.0, "larger weights are cut to this; None: they are not", above=0)
    self_normalize: bool = option(True, "scale the weights to a mean of one, before and after they are cut")

    def __post_init__(self) -> None:
        if self.ratio not in (_MODEL, *DENSITY_RATIOS):
            raise UnknownNameError("density ratio", self.ratio, (_MODEL, *DENSITY_RATIOS))

    def source_weights(self, data: CalibrationData) -> Tensor:
        """Weights (N,) of the held-out source rows.

        Raises:
            InvalidInputError: no target, or a domain with too few rows.
        """
        target = require_target(data)
        if self.ratio == _MODEL:
            log_weights = -data.held_out.density_ratio.double().log().clamp(-_LOG_LIMIT, _LOG_LIMIT)
        else:
            log_weights = self.held_out_log_weights(data.held_out.features, target.features, data.seed)
        weights = log_weights.exp()
        if self.self_normalize:
            weights = weights / weights.mean()
        if self.largest_weight is not None:
            weights = weights.clamp_max(self.largest_weight)
        return weights / weights.mean() if self.self_normalize else weights

    def held_out_log_weights(self, source: Tensor, target: Tensor, seed: int) -> Tensor:
        """log P_target / P_source (N,) at the source rows, each by an estimate made without that row.

        Args:
            source: (N, F) features.
            target: (M, F) features.
            seed: of the division into folds and of the estimates.

        Raises:
            InvalidInputError: a domain with fewer than two rows, or ten for all but the logistic regression.
        """
        fewest, wanted = min(len(source), len(target)), 2 if self.ratio == "logistic" else MIN_ROWS
        if fewest < wanted:
            raise InvalidInputError(
                f"expected at least {wanted} rows of each domain to weigh one against the other, "
                f"got {len(source)} of held-out source and {len(target)} of target data"
            )
        own, others = check_features(source, "source features"), check_features(target, "target features")
        is_target = np.repeat([0, 1], [len(source), len(target)])
        fold = stratified_folds(np.concatenate([own, others]), is_target, min(_NUM_FOLDS, fewest), seed)
        estimator = self._estimator()
        log_ratio, _ = estimator.held_out_log_ratio(
            own,
            others,
            fold[: len(source)],
            fold[len(source) :],
            seed,
        )
        return -torch.from_numpy(log_ratio).clamp(-math.log(estimator.bound), math.log(estimator.bound))

    def calibrate(self, outputs: Outputs, state: State) -> Tensor:
        """z / T."""
        return outputs.logits / state["temperature"]

    def _estimator(self) -> DensityRatioEstimator:
        if self.ratio == "logistic":
            return Logistic(penalty=self.ratio_penalty, pooled_units=True, bound=math.exp(_LOG_LIMIT))
        return density_ratio_estimator(self.ratio)


def require_target(data: CalibrationData) -> Outputs:
    """What the model says of the target.

    Raises:
        InvalidInputError: there is no target.
    """
    if data.target is None:
        raise InvalidInputError(
            "this calibrator weighs source data by how target-like they are and needs target inputs, got none; "
            "give a target, or choose the calibrator 'temperature', which needs none"
        )
    return data.target


def temperature_state(temperature: float, weights: Tensor, **diagnostics: float) -> State:
    """A state with the temperature, the effective sample size of the weights and further scalars."""
    effective = len(weights) * effective_sample_share(weights.log().numpy())
    values = {"temperature": temperature, "effective_sample_size": effective, **diagnostics}
    return {name: torch.tensor(value, dtype=torch.float64) for name, value in values.items()}
