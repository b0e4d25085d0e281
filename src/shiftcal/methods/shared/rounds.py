"""What methods that take in a growing portion of the target share: when, and how much of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from shiftcal.core.options import option
from shiftcal.data.batches import Batch
from shiftcal.functional.self_training import growing_portion
from shiftcal.methods.base import TrainingView
from shiftcal.methods.networks.backbones import Backbone


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
    strong_views: bool = option(True, "change selected images at random, and strongly, when they are shown")

    @property
    def pseudo_batch_share(self) -> float:
        """As the option says.

        Drawn from all labelled rows alike, the selected ones would hardly be seen beside a large source; in the
        published scripts of self-training they are the larger part.
        """
        return self.pseudo_share

    def in_strong_views(self, batch: Batch, backbone: Backbone) -> Batch:
        """The batch with its pseudo-labelled images in strong views, or weak ones for other than 1 or 3 channels.

        Of a picture that it labelled itself the network learns something new in another view only.
        """
        if not (self.strong_views and backbone.takes_images and batch.is_pseudo.any()):
            return batch
        can_be_strong = batch.source_inputs.shape[1] in (1, 3)
        shown = batch.source_inputs.clone()
        shown[batch.is_pseudo] = (batch.views.strong if can_be_strong else batch.views.weak)(
            batch.source_inputs, only=batch.is_pseudo
        )
        return batch._replace(source_inputs=shown)
