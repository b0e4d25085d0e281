"""What a post-hoc calibrator is: options, and a state that is fitted to what a trained model says."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import ClassVar, NamedTuple

from torch import Tensor

from shiftcal.data.inputs import Inputs
from shiftcal.methods.base import Outputs
from shiftcal.target.diagnosis import Diagnosis
from shiftcal.target.estimators.base import AccuracyEstimator
from shiftcal.target.estimators.combined import Combined
from shiftcal.target.evidence import BeforeAdaptation, ObservedRows, ShiftEvidence, held_out_temperature
from shiftcal.target.structure import DomainStructure

State = dict[str, Tensor]


class Judged(NamedTuple):
    """What the accuracy on the target is judged by, where that is not what the model says: `Method.judged_outputs`.

    For rows that were trained on, held-out rows and the target: logits and perhaps reference features of each.
    """

    training: tuple[Tensor, ...]
    held_out: tuple[Tensor, ...]
    target: tuple[Tensor, ...]


@dataclass(frozen=True)
class CalibrationData:
    """What a calibrator learns from: what the model says of held-out source data with labels, and of the target."""

    held_out: Outputs
    """Of source data that the model was not trained on."""
    held_out_labels: Tensor
    """(N,) class numbers."""
    target: Outputs | None
    """None if no target is known."""
    num_classes: int
    seed: int = 0
    held_out_inputs: Inputs | None = None
    """The held-out source data itself, where it is at hand."""
    predict: Callable[[Inputs], Outputs] | None = None
    """The model, for calibrators that show it something else."""
    training: Outputs | None = None
    """Of source data that the model was trained on; None: not at hand."""
    training_labels: Tensor | None = None
    judged: Judged | None = None
    before_adaptation: BeforeAdaptation | None = None
    is_held_out: bool = True
    """Whether the held-out rows are such; else rows that were trained on stand for them."""

    def evidence(self, *, with_features: bool = True, as_judged: bool = True) -> ShiftEvidence | None:
        """What is known of the shift, at the temperature of the source; None without a target.

        Args:
            with_features: or outputs alone.
            as_judged: by `judged`, where there is such, as the accuracy is estimated; else by the outputs themselves.
        """
        key = (with_features, as_judged and self.judged is not None)
        if key not in self._evidence:
            self._evidence[key] = self._made_evidence(*key)
        return self._evidence[key]

    @cached_property
    def _evidence(self) -> dict[tuple[bool, bool], ShiftEvidence | None]:
        return {}

    def _made_evidence(self, with_features: bool, as_judged: bool) -> ShiftEvidence | None:
        if self.target is None:
            return None
        judged = self.judged if as_judged else None
        said = judged or Judged(
            () if self.training is None else (self.training.logits,), (self.held_out.logits,), (self.target.logits,)
        )
        temperature = held_out_temperature(said.held_out[0], self.held_out_labels)

        def rows(outputs: Outputs, logits: Tensor, *reference: Tensor) -> ObservedRows:
            return observed_rows(outputs, logits.double() / temperature, *reference, with_features=with_features)

        held_out, target = rows(self.held_out, *said.held_out), rows(self.target, *said.target)
        training = None if self.training is None else rows(self.training, *said.training)
        # Without features of its own or of a reference, a structure is that of what is said, and not shared.
        shared = with_features and target.reference_features is None
        return ShiftEvidence(
            held_out,
            self.held_out_labels,
            target,
            training,
            self.training_labels,
            self.before_adaptation,
            self._feature_structure if shared else None,
        )

    @cached_property
    def _feature_structure(self) -> DomainStructure:
        assert self.target is not None
        training = None if self.training is None else self.training.structure.double()
        return DomainStructure(training, self.held_out.structure.double(), self.target.structure.double())

    @cached_property
    def _diagnoses(self) -> dict[tuple[AccuracyEstimator, bool], Diagnosis]:
        return {}

    def diagnose(self, estimator: AccuracyEstimator | None = None, *, with_features: bool = True) -> Diagnosis | None:
        """What to expect on the target; None without one. The same question has the same answer, at no cost."""
        key = (estimator or Combined(), with_features)
        if key not in self._diagnoses:
            evidence = self.evidence(with_features=with_features)
            if evidence is None:
                return None
            found = key[0].diagnose(evidence)
            self._diagnoses[key] = replace(found, has_held_out=self.is_held_out)
        return self._diagnoses[key]


def observed_rows(
    outputs: Outputs, logits: Tensor, reference_features: Tensor | None = None, *, with_features: bool = True
) -> ObservedRows:
    """Outputs of a domain, with other logits, as what is known of its rows."""
    return ObservedRows(
        logits,
        1 / (1 + outputs.density_ratio.double()),
        outputs.structure.double() if with_features else None,
        None if reference_features is None or not with_features else reference_features.double(),
    )


@dataclass(frozen=True, kw_only=True)
class Calibrator(ABC):
    """Base of all calibrators; like a method it holds options only, and what it learns is its `State`."""

    needs_held_out: ClassVar[bool] = True
    """Whether source data that the model was not trained on is a must; else training rows stand for it."""

    @abstractmethod
    def fit(self, data: CalibrationData) -> State:
        """Learn from held-out source data with labels and from the target without."""

    @abstractmethod
    def calibrate(self, outputs: Outputs, state: State) -> Tensor:
        """Calibrated logits (N, C), of which the probabilities are the softmax."""

    def density_ratio(self, outputs: Outputs, state: State) -> Tensor:
        """P_source / P_target (N,): that of the model, unless the calibrator has learned one of its own."""
        del state
        return outputs.density_ratio

    def calibrated(self, outputs: Outputs, state: State) -> Outputs:
        """The same outputs with calibrated logits and that ratio."""
        return outputs._replace(
            logits=self.calibrate(outputs, state), density_ratio=self.density_ratio(outputs, state)
        )

    def prepared(self, state: State) -> Callable[[Outputs], Outputs]:
        """`calibrated` of a state, for many batches: what does not depend on their rows may be done once."""
        return partial(self.calibrated, state=state)

    def diagnose(self, data: CalibrationData) -> Diagnosis | None:
        """What to expect on the target, by the estimator of this calibrator where it has one."""
        return data.diagnose()
