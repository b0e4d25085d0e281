"""Importance weights w(x) = P_target(x) / P_source(x) of held-out source rows, which several calibrators share.

`ratio` says where they come from:

- "logistic": a logistic regression of the domain on standardised features, each domain with half of the weight, so
  that its logit is log w. Each row's logit is that of a regression that was fitted without it: one that has seen the
  row tells it from the target too well, and the weights of all rows fall towards zero.
- "model": 1 / `density_ratio` of the model itself. A method that models no shift says 1 everywhere, and weighted
  temperature scaling is then temperature scaling.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import Tensor

from shiftcal.calibrators.base import CalibrationData, Calibrator, State
from shiftcal.errors import InvalidInputError
from shiftcal.methods.base import Outputs
from shiftcal.options import option

_NUM_FOLDS = 5
# Logits beyond this are no more than the mark of separable domains; it keeps the weights finite.
_LOG_LIMIT = 30.0


@dataclass(frozen=True, kw_only=True)
class ImportanceWeighted(Calibrator):
    """Base of the calibrators that fit a temperature with importance weights."""

    ratio: Literal["logistic", "model"] = option(
        "logistic", "weights from a logistic regression on features, or 1 / the model's own density ratio"
    )
    ratio_penalty: float = option(1.0, "L2 penalty of the logistic regression (scikit-learn's 1 / C)", above=0)
    largest_weight: float | None = option(10.0, "larger weights are cut to this; None: they are not", above=0)
    self_normalize: bool = option(True, "scale the weights to a mean of one, before and after they are cut")

    def source_weights(self, data: CalibrationData) -> Tensor:
        """Weights (N,) of the held-out source rows.

        Raises:
            InvalidInputError: no target, or a domain with fewer than two rows.
        """
        target = require_target(data)
        if self.ratio == "model":
            log_weights = -data.source.density_ratio.double().log()
        else:
            log_weights = domain_logits(
                data.source.features, target.features, penalty=self.ratio_penalty, seed=data.seed
            )
        weights = log_weights.clamp(-_LOG_LIMIT, _LOG_LIMIT).exp()
        if self.self_normalize:
            weights = weights / weights.mean()
        if self.largest_weight is not None:
            weights = weights.clamp_max(self.largest_weight)
        return weights / weights.mean() if self.self_normalize else weights

    def calibrate(self, outputs: Outputs, state: State) -> Tensor:
        """z / T."""
        return outputs.logits / state["temperature"]


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


def domain_logits(source: Tensor, target: Tensor, *, penalty: float = 1.0, seed: int = 0) -> Tensor:
    """log P_target / P_source (N,) at the source rows, each by a logistic regression fitted without that row.

    Args:
        source: (N, F) features.
        target: (M, F) features.
        penalty: L2 penalty on the coefficients of standardised features.
        seed: of the division into folds.

    Raises:
        InvalidInputError: a domain with fewer than two rows.
    """
    fewest = min(len(source), len(target))
    if fewest < 2:
        raise InvalidInputError(
            f"expected at least two rows of each domain to weigh one against the other, "
            f"got {len(source)} of held-out source and {len(target)} of target data"
        )
    features = torch.cat([source, target]).double().numpy()
    is_target = np.repeat([0, 1], [len(source), len(target)])
    regression = make_pipeline(
        StandardScaler(), LogisticRegression(C=1 / penalty, class_weight="balanced", max_iter=5000)
    )
    folds = StratifiedKFold(min(_NUM_FOLDS, fewest), shuffle=True, random_state=seed % 2**32)
    logits = cross_val_predict(regression, features, is_target, cv=folds, method="decision_function")
    return torch.from_numpy(np.asarray(logits[: len(source)], dtype=np.float64))


def effective_sample_size(weights: Tensor) -> float:
    """Rows of equal weight that are worth as much: (sum w)^2 / sum w^2, from 1 to N (Kish 1965)."""
    return float(weights.sum().square() / weights.square().sum())


def temperature_state(temperature: float, weights: Tensor, **diagnostics: float) -> State:
    """A state with the temperature, the effective sample size of the weights and further scalars."""
    values = {"temperature": temperature, "effective_sample_size": effective_sample_size(weights), **diagnostics}
    return {name: torch.tensor(value, dtype=torch.float64) for name, value in values.items()}
