"""A fitted model: from inputs to calibrated outputs, to disk and back."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from shiftcal.calibrators.base import CalibrationData, Judged, State
from shiftcal.calibrators.estimates import estimate_performance
from shiftcal.calibrators.target_scaling import TargetScaling
from shiftcal.core.errors import InvalidInputError
from shiftcal.data.batches import ShiftProblem
from shiftcal.data.domains import LabelledDomain
from shiftcal.data.encoders import Encoder
from shiftcal.data.feature_store import ExtractedInputs
from shiftcal.data.inputs import ArrayInputs, Inputs
from shiftcal.data.pseudo_label_rounds import PseudoLabelRounds
from shiftcal.data.splits import hold_out, within_budget
from shiftcal.functional.predictive import probabilities_of
from shiftcal.methods.base import Outputs
from shiftcal.target.diagnosis import Diagnosis
from shiftcal.target.findings import TargetFindings
from shiftcal.target.performance import Estimate
from shiftcal.target.prediction_sets import Conformity, conformity
from shiftcal.target.sampling import sampled_rows
from shiftcal.training.fabric import prediction_device
from shiftcal.training.frozen_backbone import FrozenBackbone
from shiftcal.training.held_out import HeldOut, held_out_rows
from shiftcal.training.inference import observe_rows, predict_batches, predict_inputs
from shiftcal.training.options import TrainingOptions
from shiftcal.training.recipe import Recipe
from shiftcal.training.training_progress import EpochRecord


class Predicted(NamedTuple):
    """What a fitted model says of a batch of rows; float64."""

    probabilities: Tensor
    """(N, C) calibrated."""
    density_ratio: Tensor
    """(N,) P_source / P_target."""
    sets: Tensor | None
    """(N, C) true where a class is in the set of a row; None if no coverage was asked for."""


@dataclass(frozen=True)
class FittedModel:
    """A trained network with all that prediction needs."""

    recipe: Recipe
    network: nn.Module
    input_shape: tuple[int, ...]
    classes: tuple[Hashable, ...]
    has_target: bool
    calibrator_state: State | None
    history: tuple[EpochRecord, ...]
    training_seconds: float
    findings: TargetFindings = TargetFindings()
    """What is known of the target, such as the accuracy to be expected there."""
    conformity: Conformity | None = None
    """What prediction sets are made from; None if no source data was held out."""
    held_out: HeldOut | None = None
    """What estimates on later data are made from; None if no source data was held out."""
    pseudo_labels: PseudoLabelRounds | None = None
    """What self-training took as labelled; None for other methods."""
    num_target_rows: int = 0
    """Of training, for networks that keep something per row of the target."""
    encoder: Encoder | None = None
    """What makes features of rows of a table; None for a model that takes features or images."""
    frozen_backbone: FrozenBackbone | None = None
    """What makes features of pictures for the network; None where the network itself takes them."""
    asked_for: Recipe | None = None
    """What was to be trained, where this model stands in for it; see `shiftcal.training.fallback`."""

    @property
    def diagnosis(self) -> Diagnosis | None:
        """What to expect on the target; None without one."""
        return self.findings.diagnosis

    def predict(self, inputs: Inputs, *, keep_inputs: bool = False) -> Outputs:
        """Outputs for all rows, with calibrated logits and, if asked, with inputs that are vectors."""
        return self._outputs(self._network_inputs(inputs), finish=self._calibration(), keep_inputs=keep_inputs)

    def predict_batches(self, inputs: Inputs, coverage: float | None = None) -> Iterator[Predicted]:
        """Calibrated probabilities, density ratio and, for a coverage, sets, batch by batch and in one pass.

        Memory does not grow with the rows.

        Raises:
            InvalidInputError: inputs of another shape; sets without held-out source data; a coverage out of range.
        """
        inputs = self._network_inputs(inputs)
        training = self.recipe.training
        device = prediction_device(training.device)
        sets_of = None if coverage is None else self._conformity().rule(coverage)
        for outputs in predict_batches(
            self.recipe.method,
            self.network.to(device),
            inputs,
            device=device,
            flip_average=training.flip_average,
            finish=self._calibration(),
        ):
            probabilities, ratio = probabilities_of(outputs.logits), outputs.density_ratio.double()
            yield Predicted(probabilities, ratio, None if sets_of is None else sets_of(probabilities, 1 / ratio))

    def _network_inputs(self, inputs: Inputs) -> Inputs:
        """What the network is given: the inputs, or features of a frozen backbone."""
        if inputs.shape != self.input_shape:
            raise InvalidInputError(f"expected inputs of shape {self.input_shape}, got {inputs.shape}")
        return inputs if self.frozen_backbone is None else self.frozen_backbone.known(inputs)

    def _conformity(self) -> Conformity:
        """What prediction sets are made from.

        Raises:
            InvalidInputError: no source data was held out.
        """
        if self.conformity is None:
            raise InvalidInputError(
                "prediction sets need held-out source data, and there is none; give more data or a larger "
                "validation_fraction"
            )
        return self.conformity

    def estimate(self, inputs: Inputs) -> Estimate:
        """What to expect of the model on rows without labels: for the target of training, what was expected there.

        By a sample of at most 20,000 of them. Where more than 2,000 source rows were looked at in training, a sample
        of them is kept, and the two may differ a little.

        Raises:
            InvalidInputError: no source data was held out.
        """
        if self.held_out is None:
            raise InvalidInputError(
                "an estimate needs held-out source data, and there is none; give more data or a larger "
                "validation_fraction"
            )
        num_rows = len(inputs)
        given = self._network_inputs(inputs.subset(sampled_rows(num_rows)))
        if isinstance(given, ExtractedInputs):  # which are asked for twice
            given = ArrayInputs(given.fetch(np.arange(len(given), dtype=np.int64)))
        said = self._outputs(given, keep_inputs=True)
        data = self.held_out.compared_with(
            said._replace(features=said.structure, inputs=None),
            None if self.held_out.judged is None else self._judged_outputs(given),
            num_classes=len(self.classes),
            before_adaptation=self.recipe.method.before_adaptation(self.network),
        )
        calibrator = self.recipe.calibrator
        scaling = calibrator if isinstance(calibrator, TargetScaling) else TargetScaling()
        checks = self.held_out.input_checks(inputs)
        found = estimate_performance(data, self._calibration()(said), scaling, self.classes, inputs=checks)
        return replace(found, num_rows=num_rows)

    def with_calibrator(
        self,
        name: str | None,
        problem: ShiftProblem,
        calibrator_options: Mapping[str, Any] | None = None,
        *,
        observed: CalibrationData | None = None,
    ) -> FittedModel:
        """The same network with another calibrator, fitted to the data that it was trained on."""
        other = replace(self, recipe=self.recipe.with_calibrator(name, calibrator_options))
        return other.calibrated(problem, observed)

    def calibrated(self, problem: ShiftProblem, observed: CalibrationData | None = None) -> FittedModel:
        """The same with the calibrator of its recipe fitted, and what there is to say of the target.

        Args:
            problem: the data that it was trained on.
            observed: what the network says of it, from `observed`, where several calibrators learn from the same.
        """
        if self.frozen_backbone is not None:
            problem = self.frozen_backbone.freeze(problem)
        _, held_out = source_split(problem.source, self.recipe.training)
        calibrator = self.recipe.calibrator
        if calibrator is not None and calibrator.needs_held_out:
            check_held_out(self.recipe, held_out)
        data = self._observed(problem) if observed is None else observed
        state = None if calibrator is None else calibrator.fit(data)
        diagnosis = data.diagnose() if calibrator is None else calibrator.diagnose(data)
        fitted = replace(self, calibrator_state=state, findings=replace(self.findings, diagnosis=diagnosis))
        if held_out is None:
            return replace(fitted, conformity=None, held_out=None)
        calibrate = fitted._calibration()
        source, target = calibrate(data.held_out), None if data.target is None else calibrate(data.target)
        found = conformity(
            torch.softmax(source.logits.double(), dim=-1),
            data.held_out_labels,
            1 / source.density_ratio,
            None if target is None else torch.softmax(target.logits.double(), dim=-1),
        )
        kept = held_out_rows(data)
        if diagnosis is not None and problem.target is not None:
            diagnosis = replace(diagnosis, inputs=kept.input_checks(problem.target.inputs))
            fitted = replace(fitted, findings=replace(fitted.findings, diagnosis=diagnosis))
        return replace(fitted, conformity=found, held_out=kept)

    def observed(self, problem: ShiftProblem) -> CalibrationData:
        """What the network says of (a sample of) the rows of both domains: all that calibrators learn from."""
        return self._observed(problem if self.frozen_backbone is None else self.frozen_backbone.freeze(problem))

    def _observed(self, problem: ShiftProblem) -> CalibrationData:
        training, held_out = source_split(problem.source, self.recipe.training)
        target = problem.target
        seen = sampled_domain(training)
        unseen = seen if held_out is None else sampled_domain(held_out)
        target_inputs = None if target is None else target.inputs.subset(sampled_rows(len(target)))
        outputs, labels = self._outputs(seen.inputs, keep_inputs=True), torch.from_numpy(seen.labels)
        judged = None
        if self.recipe.method.judges_apart and target_inputs is not None:
            judged = Judged(*(self._judged_outputs(inputs) for inputs in (seen.inputs, unseen.inputs, target_inputs)))
        return CalibrationData(
            held_out=outputs if unseen is seen else self._outputs(unseen.inputs, keep_inputs=True),
            held_out_labels=torch.from_numpy(unseen.labels),
            target=None if target_inputs is None else self._outputs(target_inputs, keep_inputs=True),
            num_classes=len(self.classes),
            seed=self.recipe.training.random_state,
            held_out_inputs=unseen.inputs,
            is_held_out=held_out is not None,
            predict=self._outputs,
            training=outputs,
            training_labels=labels,
            judged=judged,
            before_adaptation=self.recipe.method.before_adaptation(self.network),
        )

    def _calibration(self) -> Callable[[Outputs], Outputs]:
        """What is done to outputs of the network, of any number of batches."""
        calibrator, state = self.recipe.calibrator, self.calibrator_state
        if calibrator is None or state is None:
            return lambda outputs: outputs
        return calibrator.prepared(state)

    def _outputs(
        self, inputs: Inputs, *, finish: Callable[[Outputs], Outputs] | None = None, keep_inputs: bool = False
    ) -> Outputs:
        """What the network says, on the device of the recipe."""
        training = self.recipe.training
        device = prediction_device(training.device)
        return predict_inputs(
            self.recipe.method,
            self.network.to(device),
            inputs,
            device=device,
            flip_average=training.flip_average,
            finish=finish,
            keep_inputs=keep_inputs,
        )

    def judged_outputs(self, inputs: Inputs) -> tuple[Tensor, ...]:
        """What the accuracy on the target is judged by, for all rows: see `Method.judged_outputs`."""
        return self._judged_outputs(self._network_inputs(inputs))

    def _judged_outputs(self, inputs: Inputs) -> tuple[Tensor, ...]:
        device = prediction_device(self.recipe.training.device)
        network = self.network.to(device)
        judge = partial(self.recipe.method.judged_outputs, network)
        return observe_rows(judge, network, inputs, device, None)


def check_held_out(recipe: Recipe, validation: LabelledDomain | None) -> LabelledDomain:
    """The held-out source data that the recipe's calibrator is fitted to.

    Raises:
        InvalidInputError: nothing was held out.
    """
    if validation is not None:
        return validation
    name, fraction = recipe.calibrator_name, recipe.training.validation_fraction
    raise InvalidInputError(
        f"calibrator {name!r} needs held-out source data and the source is too small to hold any out: "
        f"expected a class with at least {math.ceil(1 / fraction)} rows (or set a larger validation_fraction)"
        if fraction > 0
        else f"calibrator {name!r} needs held-out source data, but validation_fraction is 0"
    )


def source_split(source: LabelledDomain, training: TrainingOptions) -> tuple[LabelledDomain, LabelledDomain | None]:
    """The parts of the source that training uses and that it holds out: the same for every method and calibrator."""
    if training.label_budget is not None:
        source = within_budget(source, training.label_budget, training.random_state)
    return hold_out(source, training.validation_fraction, training.random_state)


def sampled_domain(domain: LabelledDomain) -> LabelledDomain:
    """At most so many rows as estimates need."""
    return domain.subset(sampled_rows(len(domain)))
