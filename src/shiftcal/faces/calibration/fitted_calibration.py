"""Target scaling fitted to what a model of any make said of both domains; for models and for files alike."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from shiftcal.calibrators.base import CalibrationData, State
from shiftcal.calibrators.estimates import estimate_performance
from shiftcal.calibrators.target_scaling import TargetScaling
from shiftcal.core.errors import InvalidInputError
from shiftcal.data.row_batches import RowNumbers
from shiftcal.faces.models.outputs import FixedKind, as_logits
from shiftcal.faces.models.reader import SeenRows
from shiftcal.methods.base import Outputs
from shiftcal.target.diagnosis import Diagnosis
from shiftcal.target.feature_map import FeatureMap, FeatureTable, fit_feature_map
from shiftcal.target.input_checks import InputReference
from shiftcal.target.performance import Estimate, Expected, expected_performance, with_accuracy
from shiftcal.target.prediction_sets import Conformity, conformity
from shiftcal.target.sampling import sampled_rows

# Rows of the source and of the target that are kept to be compared with and shown.
_KEPT_ROWS = 4_000
_OUTPUTS_ALONE = "what the model says"


class Calibrated(NamedTuple):
    """Of some rows."""

    probabilities: NDArray[np.float64]
    """(N, C)"""
    density_ratio: NDArray[np.float64]
    """(N,) P_source / P_target"""


@dataclass(frozen=True)
class FittedCalibration:
    """All that calibrated probabilities, sets and estimates of new rows are made from."""

    classes: tuple[Hashable, ...]
    kind: FixedKind
    """What the model gives."""
    feature_map: FeatureMap | None
    scaling: TargetScaling
    state: State
    source: Outputs
    source_labels: Tensor
    source_inputs: InputReference | None
    conformity: Conformity
    diagnosis: Diagnosis
    shown_given: NDArray[np.float64]
    """(K, C) probabilities of some of the target's rows as the model gives them."""
    shown: Calibrated
    """The same rows, calibrated."""
    num_target_rows: int

    def calibrated(self, outputs: NDArray[np.float64], features: FeatureTable | None, rows: RowNumbers) -> Calibrated:
        """Of new rows: outputs (N, C) as the model gives them, their features, and their numbers for messages."""
        return _calibrated(self.scaling, self.state, self._outputs(outputs, features, rows))

    def sets(self, calibrated: Calibrated, coverage: float) -> NDArray[np.bool_]:
        """Labels (N, C) of sets that are to hold the true one so often."""
        chosen = self.conformity.sets(calibrated.probabilities, 1 / calibrated.density_ratio, coverage)
        return np.asarray(chosen, dtype=np.bool_)

    def set_coverage(self, coverage: float) -> Expected:
        """How often such sets are expected to hold the true label on the target, if the accuracy is as estimated."""
        sets, predicted = self.sets(self.shown, coverage), self.shown.probabilities.argmax(axis=1)
        held = [
            float((with_accuracy(self.shown.probabilities, predicted, accuracy) * sets).sum(axis=1).mean())
            for accuracy in (self.diagnosis.accuracy, *(self.diagnosis.interval or ()))
        ]
        if not held[1:]:
            return Expected(held[0], None, None)
        unknown = self.diagnosis.outside_share if self.diagnosis.is_outside else 0.0
        return Expected(held[0], held[1] * (1 - unknown), held[2])

    def estimate(self, seen: SeenRows) -> Estimate:
        """What to expect of the model on other rows."""
        target = self._outputs(seen.outputs, seen.features, seen.rows)
        data = CalibrationData(self.source, self.source_labels, target, num_classes=len(self.classes))
        checks = None
        if self.source_inputs is not None and seen.inputs is not None:
            checks = self.source_inputs.checks(seen.inputs, seen.column_names)
        found = estimate_performance(
            data, target, self.scaling, self.classes, inputs=checks, looked_at=seen.looked_at or _OUTPUTS_ALONE
        )
        return replace(found, num_rows=seen.num_rows)

    def target_estimate(self) -> Estimate:
        """The same for the target that this was fitted to, by the rows that were kept."""
        found = expected_performance(self.shown_given, self.shown.probabilities, self.diagnosis, self.classes)
        return replace(found, num_rows=self.num_target_rows)

    def verdict(self) -> str:
        """In words, what to expect, and what of sets of labels."""
        held = self.set_coverage(0.9)
        if held.low is None or held.high is None:
            return self.diagnosis.verdict()
        sets = (
            f"Sets of labels asked for 90 % are expected to hold the true one {held.low:.0%} to {held.high:.0%} of "
            "the time."
        )
        return f"{self.diagnosis.verdict()} {sets}"

    def _outputs(self, outputs: NDArray[np.float64], features: FeatureTable | None, rows: RowNumbers) -> Outputs:
        num_classes = max(outputs.shape[1], 2)
        if num_classes != len(self.classes):
            raise InvalidInputError(
                f"model: expected outputs for {len(self.classes)} classes, as in fit, got {num_classes} columns"
            )
        return _domain(outputs, features, rows, self.kind, self.feature_map)


def fit_calibration(
    source: SeenRows, labels: Tensor, target: SeenRows, classes: tuple[Hashable, ...], kind: FixedKind
) -> FittedCalibration:
    """Fit to what a model said of labelled source rows, best such that it was not trained on, and of target rows.

    Args:
        source: with or without features; without, all is known by outputs alone.
        labels: (N,) class numbers.
        target: the same of the target.
        classes: in the order of the columns.
        kind: what the outputs are.

    Raises:
        InvalidInputError: the two do not belong together, or outputs are not what they should be.
    """
    if (source.features is None) != (target.features is None):
        raise InvalidInputError("features: expected those of both domains or of none")
    feature_map = None
    if source.features is not None and target.features is not None:
        feature_map = fit_feature_map(source.features, target.features)
    own, others = (_domain(seen.outputs, seen.features, seen.rows, kind, feature_map) for seen in (source, target))
    inputs = None
    if source.inputs is not None:
        inputs = InputReference(source.inputs[sampled_rows(len(source.inputs), _KEPT_ROWS)], source.column_names)
    scaling = TargetScaling(use_features=feature_map is not None)
    data = CalibrationData(own, labels, others, num_classes=len(classes))
    state, found = scaling.fit(data), scaling.diagnose(data)
    assert found is not None
    found = replace(
        found,
        inputs=None if inputs is None or target.inputs is None else inputs.checks(target.inputs, target.column_names),
        looked_at=source.looked_at or _OUTPUTS_ALONE,
    )
    of_source, of_target = (_calibrated(scaling, state, domain) for domain in (own, others))
    some = sampled_rows(len(of_target.probabilities), _KEPT_ROWS)
    return FittedCalibration(
        classes,
        kind,
        feature_map,
        scaling,
        state,
        own,
        labels,
        inputs,
        conformity(
            torch.from_numpy(of_source.probabilities),
            labels,
            torch.from_numpy(1 / of_source.density_ratio),
            torch.from_numpy(of_target.probabilities),
        ),
        found,
        torch.softmax(others.logits[some], dim=-1).numpy(),
        Calibrated(*(values[some] for values in of_target)),
        target.num_rows,
    )


def _domain(
    outputs: NDArray[np.float64],
    features: FeatureTable | None,
    rows: RowNumbers,
    kind: FixedKind,
    feature_map: FeatureMap | None,
) -> Outputs:
    logits = as_logits(outputs, kind, rows)
    if (features is None) != (feature_map is None):
        raise InvalidInputError("features: expected those of both domains, and of new rows, or of none")
    none = torch.empty(len(logits), 0, dtype=torch.float64)
    structure = none if features is None or feature_map is None else feature_map.of(features)
    return Outputs(logits, torch.ones(len(logits), dtype=torch.float64), structure)


def _calibrated(scaling: TargetScaling, state: State, outputs: Outputs) -> Calibrated:
    calibrated = scaling.calibrated(outputs, state)
    return Calibrated(torch.softmax(calibrated.logits, dim=-1).numpy(), calibrated.density_ratio.numpy())
