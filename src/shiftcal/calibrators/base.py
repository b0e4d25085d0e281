"""What a post-hoc calibrator is: options, and a state that is fitted to outputs of a trained model."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from torch import Tensor

from shiftcal.methods.base import Outputs

State = dict[str, Tensor]


@dataclass(frozen=True, kw_only=True)
class Calibrator(ABC):
    """Base of all calibrators; like a method it holds options only, and what it learns is its `State`."""

    @abstractmethod
    def fit(self, source: Outputs, source_labels: Tensor, target: Outputs | None) -> State:
        """Learn from held-out source data with labels (N,) and from the target without.

        Args:
            source: outputs on source data that the model was not trained on.
            source_labels: (N,) class numbers.
            target: outputs on the target; None if no target is known.
        """

    @abstractmethod
    def calibrate(self, outputs: Outputs, state: State) -> Tensor:
        """Calibrated logits (N, C), of which the probabilities are the softmax."""
