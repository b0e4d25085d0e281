"""What a post-hoc calibrator is: options, and a state that is fitted to what a trained model says."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from torch import Tensor

from shiftcal.data.inputs import Inputs
from shiftcal.methods.base import Outputs

State = dict[str, Tensor]


@dataclass(frozen=True)
class CalibrationData:
    """What a calibrator learns from: held-out source data with labels, the target without, and the model."""

    predict: Callable[[Inputs], Outputs]
    """The model, whose outputs are to be calibrated."""
    source_inputs: Inputs
    """Source data that the model was not trained on."""
    source_labels: Tensor
    """(N,) class numbers."""
    target_inputs: Inputs | None
    """None if no target is known."""
    num_classes: int
    seed: int

    @cached_property
    def source(self) -> Outputs:
        """What the model says of the held-out source data."""
        return self.predict(self.source_inputs)

    @cached_property
    def target(self) -> Outputs | None:
        """What the model says of the target."""
        return None if self.target_inputs is None else self.predict(self.target_inputs)


@dataclass(frozen=True, kw_only=True)
class Calibrator(ABC):
    """Base of all calibrators; like a method it holds options only, and what it learns is its `State`."""

    @abstractmethod
    def fit(self, data: CalibrationData) -> State:
        """Learn from held-out source data with labels and from the target without."""

    @abstractmethod
    def calibrate(self, outputs: Outputs, state: State) -> Tensor:
        """Calibrated logits (N, C), of which the probabilities are the softmax."""
