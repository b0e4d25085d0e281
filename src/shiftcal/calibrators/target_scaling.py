"""Target scaling: confidence on the target brought to the accuracy that is expected there, without its labels.

    probabilities = softmax( scale(x) z(x) / T_0 )
    log scale(x)  = tau(x) (v u(x) - log T) - (1 - tau(x)) log T_source

by `shiftcal.target.scaling`. The accuracy is estimated by `shiftcal.target.estimators`; where classes form no
clusters, confidence moves only as far as the interval of the estimate asks for (`Diagnosis.confidence_to_reach`).
tau(x) is the probability that x is of the part of the target that has shifted (`shiftcal.target.shifted_part`), by
the density ratio R of a logistic regression of the domain that gives each row its ratio by a fit without it: rows of
a mixed stream that are as on the source keep the confidence that the source gives them. A ratio that a model learned
along with its task knows by heart which rows it was shown as target, and takes more rows for shifted than have. T_0
is the temperature of the source, or 1 where chance could explain what held-out rows show. Predictions stay what the
model predicts: only how sure they are changes. Without a target there is nothing to scale, and they stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import ClassVar

import torch
from torch import Tensor

from shiftcal.calibrators.base import CalibrationData, Calibrator, State
from shiftcal.core.options import option
from shiftcal.methods.base import Outputs
from shiftcal.target.diagnosis import Diagnosis
from shiftcal.target.domain_classifier import DomainClassifier
from shiftcal.target.estimators import ESTIMATORS, estimator_class
from shiftcal.target.estimators.base import AccuracyEstimator
from shiftcal.target.evidence import ShiftEvidence, held_out_temperature, log_probabilities
from shiftcal.target.rule import TrustRule
from shiftcal.target.scaling import ConfidenceScaling, fit_scaling
from shiftcal.target.shifted_part import shifted_probability_anywhere


@dataclass(frozen=True, kw_only=True)
class TargetScaling(TrustRule, Calibrator):
    """Brings the mean confidence on the target to the accuracy expected there; the density ratio decides where."""

    needs_held_out: ClassVar[bool] = False

    estimator: str = option("combined", f"of the accuracy on the target: {', '.join(ESTIMATORS)}")
    ratio_bound: float = option(10.0, "R stays within 1/bound and bound", above=1)
    keep_source: bool = option(False, "scale source-like inputs too, so that confidence on the source stays right")
    use_features: bool = option(True, "look for clusters, and for the ratio, in features; else in outputs alone")

    def fit(self, data: CalibrationData) -> State:
        """Estimate the accuracy, then find the temperatures.

        Raises:
            InvalidInputError: an estimator that needs features, and there are none.
        """
        found = self.diagnose(data)
        evidence = data.evidence(with_features=self.use_features, as_judged=False)
        if evidence is None or found is None:
            return {"temperature": _scalar(1.0)}
        state: State = {"temperature": _scalar(held_out_temperature(data.held_out.logits, data.held_out_labels))}
        domains = evidence.structure.domains
        if domains is not None:
            state |= {
                "ratio_slope": -domains.slope,
                "ratio_intercept": -domains.intercept,
                "shifted_share": _scalar(evidence.structure.shifted.share),
            }
            evidence = self._with_ratio(evidence, domains)
        vote = self.cluster_vote * found.cluster_reliability
        wanted = found.confidence_to_reach
        by_shifted_rows = domains is not None
        scaling = fit_scaling(evidence, wanted, vote, keep_source=self.keep_source, by_shifted_rows=by_shifted_rows)
        return state | scaling.state()

    def calibrate(self, outputs: Outputs, state: State) -> Tensor:
        """Scaled logits."""
        return self.calibrated(outputs, state).logits

    def calibrated(self, outputs: Outputs, state: State) -> Outputs:
        """Scaled logits, and the ratio that decides where scaling acts."""
        return self.prepared(state)(outputs)

    def density_ratio(self, outputs: Outputs, state: State) -> Tensor:
        """The ratio that decides where scaling acts."""
        return self.calibrated(outputs, state).density_ratio

    def prepared(self, state: State) -> Callable[[Outputs], Outputs]:
        """See `Calibrator.prepared`."""
        if "log_temperature" not in state:
            return lambda outputs: outputs
        scaling = ConfidenceScaling.from_state(state)
        look = self._look(scaling, state)

        def calibrated(outputs: Outputs) -> Outputs:
            ratio, tau, shares = look(outputs)
            scale = scaling.log_scale_by(tau, shares).exp_().div_(state["temperature"])
            return outputs._replace(logits=outputs.logits * scale.unsqueeze(-1), density_ratio=ratio)

        return calibrated

    def _look(
        self, scaling: ConfidenceScaling, state: State
    ) -> Callable[[Outputs], tuple[Tensor, Tensor, Tensor | None]]:
        """What gives the ratio, tau and, where clusters vote, the share of the predicted one: (N,) each.

        All in the precision of the outputs: to widen them takes longer than all the rest, for digits they don't have.
        """
        clusters = scaling.voting_clusters if self.use_features else None

        # Of too few rows for a regression.
        def by_model(outputs: Outputs) -> tuple[Tensor, Tensor, Tensor | None]:
            shares = None if clusters is None else clusters.shares(outputs.structure, outputs.logits.argmax(dim=-1))
            return outputs.density_ratio, 1 / (1 + outputs.density_ratio), shares

        if "ratio_slope" not in state:
            return by_model
        slope, intercept, shifted_share = (
            state["ratio_slope"],
            state["ratio_intercept"],
            float(state["shifted_share"]),
        )
        shares_and_values = None if clusters is None else clusters.shares_beside(slope, intercept)

        def by_slope(outputs: Outputs) -> tuple[Tensor, Tensor, Tensor | None]:
            shares = None
            if shares_and_values is not None:
                shares, log_ratio = shares_and_values(outputs.structure, outputs.logits.argmax(dim=-1))
            else:
                seen = outputs.structure if self.use_features else log_probabilities(outputs.logits.double())
                log_ratio = seen @ slope.to(seen.dtype) + intercept
            ratio = self._bounded(log_ratio.to(outputs.logits.dtype))
            return ratio, shifted_probability_anywhere(ratio, shifted_share), shares

        return by_slope

    def diagnose(self, data: CalibrationData) -> Diagnosis | None:
        """By the estimator and the constants of this calibrator."""
        return data.diagnose(self.accuracy_estimator(), with_features=self.use_features)

    def accuracy_estimator(self) -> AccuracyEstimator:
        """The estimator, with those of its options that are constants of the rule."""
        cls = estimator_class(self.estimator)
        if not issubclass(cls, TrustRule):
            return cls()
        return cls(**{entry.name: getattr(self, entry.name) for entry in fields(TrustRule)})

    def _with_ratio(self, evidence: ShiftEvidence, domains: DomainClassifier) -> ShiftEvidence:
        """The same with the ratio of a domain classifier, of each row by a fit without it."""
        share, num_held_out = evidence.structure.shifted.share, len(evidence.held_out_labels)
        held_out, target = (
            replace(rows, target_probability=shifted_probability_anywhere(self._bounded(-log_odds), share))
            for rows, log_odds in (
                (evidence.held_out, domains.source_log_odds[:num_held_out]),
                (evidence.target, domains.target_log_odds),
            )
        )
        return replace(evidence, held_out=held_out, target=target, known_structure=evidence.structure)

    def _bounded(self, log_ratio: Tensor) -> Tensor:
        return log_ratio.exp().clamp_(1 / self.ratio_bound, self.ratio_bound)


def _scalar(value: float) -> Tensor:
    return torch.tensor(value, dtype=torch.float64)
