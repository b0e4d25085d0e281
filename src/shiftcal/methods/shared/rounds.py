"""What methods that take in a growing portion of the target share: when, and how much of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from shiftcal.core.options import option
from shiftcal.functional.self_training import growing_portion
from shiftcal.methods.base import TrainingView


@dataclass(frozen=True, kw_only=True)
class GrowingRounds:
    """Options of rounds: a warm-up on the source, then a portion of each class that grows from epoch to epoch."""

    needs_target: ClassVar[bool] = True

    warmup_share: float = option(0.1, "share of the epochs on the source alone", at_least=0, below=1)
    first_portion: float = option(0.2, "of each class to select at first", above=0, at_most=1)
    last_portion: float = option(0.5, "of each class to select in the last epoch", above=0, at_most=1)

    def portion(self, view: TrainingView) -> float | None:
        """The portion to select before an epoch; None during the warm-up."""
        return growing_portion(
            view.epoch,
            view.num_epochs,
            warmup_share=self.warmup_share,
            first_portion=self.first_portion,
            last_portion=self.last_portion,
        )


@dataclass(frozen=True, kw_only=True)
class SelfTrainingRounds(GrowingRounds):
    """The same where selected rows are trained on as if they were labelled ones of the source."""

    pseudo_share: float = option(0.5, "of each batch, drawn from the selected rows", above=0, below=1)

    @property
    def pseudo_batch_share(self) -> float:
        """As the option says.

        Drawn from all labelled rows alike, the selected ones would hardly be seen beside a large source; in the
        published scripts of self-training they are the larger part.
        """
        return self.pseudo_share
