"""How training is run, whatever the method."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Literal

from shiftcal.core.options import option

# Without a number of epochs, about so many steps: enough for our small networks to converge, on any size of data.
DEFAULT_STEPS = 1000
_FEWEST_EPOCHS, _MOST_EPOCHS = 3, 100


# Options that decide nothing about the result: they may differ when a run goes on.
WITHOUT_INFLUENCE = ("device", "num_workers", "checkpoint_seconds", "process_timeout", "strategy")


@dataclass(frozen=True, kw_only=True)
class TrainingOptions:
    """Options of the engine."""

    epochs: int | None = option(
        None, f"how many; None: about {DEFAULT_STEPS} steps in all", at_least=1, at_most=1_000_000
    )
    epoch_steps: int | None = option(
        None, "steps of an epoch; None: one pass over the source", at_least=1, at_most=1_000_000
    )
    initial_run: str | None = option(None, "folder of a finished run whose classifier training starts from")
    label_budget: int | None = option(
        None,
        "at most so many labelled source rows, as many of each class as can be; None: all",
        at_least=1,
        at_most=10**9,
    )
    batch_size: int = option(
        64,
        "source rows in a batch (over all processes); target rows: as many, or a multiple",
        at_least=1,
        at_most=65_536,
    )
    device: str = option("auto", "auto, cpu, cuda, cuda:1, mps")
    random_state: int = option(0, "seed of everything random", at_least=0, at_most=2**32 - 1)
    precision: Literal["fp32", "bf16"] = option("fp32", "bf16 computes in mixed bfloat16")
    compile: bool = option(
        False, "backbones as torch.compile makes them: minutes at first; for large networks on GPUs"
    )
    gradient_clip: float | None = option(None, "largest gradient norm of an optimiser's parameters", above=0)
    validation_fraction: float = option(
        0.1, "share of each source class held out for calibrators and the report", at_least=0, below=1
    )
    num_workers: int = option(0, "processes that load image files", at_least=0, at_most=64)
    horizontal_flip: bool | Literal["auto"] = option(
        "auto", "whether random views may be mirrored; auto: unless all classes are single characters, as digits are"
    )
    flip_average: bool = option(
        False, "predict images by the mean with their mirror images; false for digits and text"
    )
    checkpoint_seconds: float = option(10.0, "shortest time between checkpoints at the ends of epochs", at_least=0)
    strategy: Literal["ddp", "fsdp"] = option(
        "ddp", "of several processes: each has all weights (ddp) or its part of those of the backbone (fsdp)"
    )
    process_timeout: float = option(
        60.0, "seconds that processes of a distributed run wait for one that does not answer", above=0
    )

    def mirrors(self, classes: Sequence[Hashable]) -> bool:
        """Whether random views of images of these classes are mirrored.

        Signs are not the same in a mirror. Classes that are only numbered, 0 to 9, do without mirror images too.
        """
        if self.horizontal_flip == "auto":
            return any(len(str(label)) > 1 for label in classes)
        return self.horizontal_flip

    def steps_per_epoch(self, num_source: int) -> int:
        """Batches that make up one pass over the source, or as many as are asked for."""
        return self.epoch_steps or math.ceil(num_source / self.batch_size)

    def resolved_epochs(self, num_source: int) -> int:
        """The number of epochs, chosen by the size of the source where none is given."""
        if self.epochs is not None:
            return self.epochs
        wanted = math.ceil(DEFAULT_STEPS / self.steps_per_epoch(num_source))
        return min(max(wanted, _FEWEST_EPOCHS), _MOST_EPOCHS)
