"""Target scaling: confidence on the target brought to the accuracy that is expected there, without its labels.

    probabilities = softmax( scale(x) z(x) / T_0 )
    log scale(x)  = tau(x) (v u(x) - log T) - (1 - tau(x)) log T_source

by `shiftcal.target.scaling`. The accuracy is estimated by `shiftcal.target.estimators`; tau(x) = 1 / (1 + R(x)) comes
from the density ratio of the model or, where it models no shift, of a logistic regression of the domain. T_0 is below
1 for models that the source shows to be too unsure, else 1. Predictions stay what the model predicts: only how sure
they are changes. Without a target there is nothing to scale, and they stay as they are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from shiftcal.calibrators.base import CalibrationData, Calibrator, State, observed_rows, sharpening_temperature
from shiftcal.core import options
from shiftcal.core.options import option
from shiftcal.methods.base import Outputs
from shiftcal.target.clusters import Clusters
from shiftcal.target.density_ratios.checks import MIN_ROWS
from shiftcal.target.density_ratios.logistic import linear_log_ratio
from shiftcal.target.diagnosis import Diagnosis
from shiftcal.target.estimators import ESTIMATORS, estimator_class
from shiftcal.target.estimators.base import AccuracyEstimator
from shiftcal.target.evidence import ObservedRows, sampled_rows
from shiftcal.target.rule import TrustRule
from shiftcal.target.scaling import ConfidenceScaling, fit_scaling

# Rows of each domain that the logistic regression sees: more would change little.
_MOST_ROWS_FOR_RATIO = 3_000


@dataclass(frozen=True, kw_only=True)
class TargetScaling(TrustRule, Calibrator):
    """Brings the mean confidence on the target to the accuracy expected there; the density ratio decides where."""

    needs_held_out: ClassVar[bool] = False

    estimator: str = option("combined", f"of the accuracy on the target: {', '.join(ESTIMATORS)}")
    ratio: Literal["auto", "model", "logistic"] = option(
        "auto", "density ratio of the model, or of a logistic regression; auto: the model's, if it has one"
    )
    ratio_bound: float = option(10.0, "of the logistic regression: R stays within 1/bound and bound", above=1)
    keep_source: bool = option(False, "scale source-like inputs too, so that confidence on the source stays right")
    use_features: bool = option(True, "look for clusters, and for the ratio, in features; else in outputs alone")

    def fit(self, data: CalibrationData) -> State:
        """Estimate the accuracy, then find the temperatures.

        Raises:
            InvalidInputError: an estimator that needs features, and there are none.
        """
        found = self.diagnose(data)
        if data.target is None or found is None:
            return {"temperature": _scalar(1.0)}
        sources = (data.held_out,) if data.training is None else (data.held_out, data.training)
        state: State = {
            "temperature": _scalar(sharpening_temperature(data.held_out.logits, data.held_out_labels)),
            **self._fit_ratio(sources, data.target),
        }
        rows = (self._rows(part, state) for part in (sources[-1], data.held_out, data.target))
        vote = 0.0 if data.predicts_with_clusters else self.cluster_vote * found.trust
        scaling = fit_scaling(data.shift_evidence(*rows), found.accuracy, vote, keep_source=self.keep_source)
        return state | _scaling_state(scaling)

    def calibrate(self, outputs: Outputs, state: State) -> Tensor:
        """Scaled logits."""
        if "log_temperature" not in state:
            return outputs.logits
        return _scaling_from(state).scaled_logits(self._rows(outputs, state)).to(outputs.logits.dtype)

    def density_ratio(self, outputs: Outputs, state: State) -> Tensor:
        """The ratio that decides where scaling acts."""
        if "ratio_slope" not in state:
            return outputs.density_ratio
        log_ratio = self._ratio_inputs(outputs) @ state["ratio_slope"] + state["ratio_intercept"]
        limit = math.log(self.ratio_bound)
        return log_ratio.clamp(-limit, limit).exp().to(outputs.logits.dtype)

    def diagnose(self, data: CalibrationData) -> Diagnosis | None:
        """By the estimator and the constants of this calibrator."""
        return data.diagnose(self.accuracy_estimator(), with_features=self.use_features)

    def accuracy_estimator(self) -> AccuracyEstimator:
        """The estimator, with those of its options that are constants of the rule."""
        cls = estimator_class(self.estimator)
        known = set(options.option_names(cls))
        given: dict[str, Any] = {
            entry.name: getattr(self, entry.name) for entry in fields(TrustRule) if entry.name in known
        }
        return cls(**given)

    def _fit_ratio(self, sources: tuple[Outputs, ...], target: Outputs) -> State:
        """Empty where that of the model serves, or where a domain has too few rows for one."""
        models_shift = any(bool((part.density_ratio != 1).any()) for part in (*sources, target))
        if self.ratio == "model" or (self.ratio == "auto" and models_shift):
            return {}
        source_rows = torch.cat([self._ratio_inputs(part) for part in sources])
        domains = [
            rows[sampled_rows(len(rows), _MOST_ROWS_FOR_RATIO)].numpy()
            for rows in (source_rows, self._ratio_inputs(target))
        ]
        if min(map(len, domains)) < MIN_ROWS:
            return {}
        slope, intercept = linear_log_ratio(*domains)
        return {"ratio_slope": torch.from_numpy(slope), "ratio_intercept": _scalar(intercept)}

    def _ratio_inputs(self, outputs: Outputs) -> Tensor:
        """What the ratio is a function of: the features or, without any, what the model says."""
        if self.use_features:
            return outputs.structure.double()
        return torch.log_softmax(outputs.logits.double(), dim=-1)

    def _rows(self, outputs: Outputs, state: State) -> ObservedRows:
        with_ratio = outputs._replace(density_ratio=self.density_ratio(outputs, state))
        logits = outputs.logits.double() / state["temperature"]
        return observed_rows(with_ratio, logits, with_features=self.use_features)


def _scaling_state(scaling: ConfidenceScaling) -> State:
    state = {
        "cluster_vote": scaling.cluster_vote,
        "log_temperature": scaling.log_temperature,
        "source_log_temperature": scaling.source_log_temperature,
    }
    if scaling.clusters is not None:
        state |= {name: getattr(scaling.clusters, name) for name in ("units", "centre", "centroids")}
    return state


def _scaling_from(state: State) -> ConfidenceScaling:
    clusters = None
    if "centroids" in state:
        clusters = Clusters(state["units"], state["centre"], state["centroids"])
    return ConfidenceScaling(
        clusters, state["cluster_vote"], state["log_temperature"], state["source_log_temperature"]
    )


def _scalar(value: float) -> Tensor:
    return torch.tensor(value, dtype=torch.float64)
