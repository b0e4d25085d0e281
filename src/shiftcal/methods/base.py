"""What a method is: options, a network, a training step that yields losses, and a prediction.

A method holds options and mathematics only. Everything that changes in training lives in the network it builds
(parameters and buffers), so that one engine can train, average, save and resume all of them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Generic, Literal, NamedTuple, TypeVar

import torch
from torch import Tensor, nn

from shiftcal.core.options import option
from shiftcal.data.batches import Batch, PseudoLabels
from shiftcal.data.domains import LabelledDomain, UnlabelledDomain
from shiftcal.data.inputs import Inputs
from shiftcal.methods.networks.classifiers import Blueprint
from shiftcal.target.evidence import BeforeAdaptation

OptimizerKind = Literal["adamw", "sgd"]
Schedule = Literal["constant", "cosine", "cosine-7/16", "step"]
NetworkT = TypeVar("NetworkT", bound=nn.Module)
FoundT = TypeVar("FoundT")
_CLUSTER_EPOCHS = frozenset(4**power for power in range(16))

TASK = "task"
RATIO = "ratio"

Logged = Mapping[str, Tensor]
"""Scalars by name."""


class Outputs(NamedTuple):
    """What a network says of a batch of inputs."""

    logits: Tensor
    """(N, C), of which the probabilities are the softmax."""
    density_ratio: Tensor
    """(N,) estimated P_source(x) / P_target(x); ones where the method models no shift."""
    features: Tensor
    """(N, F) of the task network, for calibrators and diagnostics."""
    inputs: Tensor | None = None
    """(N, D) the inputs themselves, where they are vectors and the engine was asked to keep them."""

    @classmethod
    def at_ratio_one(cls, logits: Tensor, features: Tensor) -> Outputs:
        """Of a method that models no shift, or has removed it from the features."""
        return cls(logits, logits.new_ones(len(logits)), features)

    @property
    def structure(self) -> Tensor:
        """What clusters are looked for in: inputs that are vectors, else the features.

        Feature vectors were made by something that did not see the task, and show what the task's own layers have
        already forgotten; pixels show little.
        """
        return self.features if self.inputs is None else self.inputs


class Accepted(NamedTuple):
    """Target rows of a batch that a step took as labelled."""

    rows: Tensor
    """(K,) row numbers in the target domain."""
    labels: Tensor
    """(K,) class numbers."""
    confidence: Tensor
    """(K,) what the method gave as probability of each label."""


@dataclass(frozen=True)
class Update:
    """A step of an optimiser that a training step asks for, and perhaps of others at the same time."""

    optimizer: str
    loss: Tensor
    logged: Logged = field(default_factory=dict)
    """For the progress bar and the history."""
    accepted: Accepted | None = None
    """Pseudo-labels of this step, for diagnostics, from methods that choose them batch by batch."""
    beside: Mapping[str, Tensor] = field(default_factory=dict)
    """Losses of other optimisers: all go in one backward pass, so each may reach its own parameters alone."""


@dataclass(frozen=True)
class OptimizerPlan:
    """Parameters that are trained together, and how."""

    parameters: Iterable[nn.Parameter] | Iterable[dict[str, Any]]
    """Or groups of them as torch has them, each `params` with an `lr` of its own."""
    kind: OptimizerKind
    learning_rate: float
    weight_decay: float
    schedule: Schedule


@dataclass(frozen=True)
class TrainingView:
    """What a method may look at before an epoch, or after the last one; the network does not change meanwhile."""

    epoch: int
    """From 0; `num_epochs` after the last."""
    num_epochs: int
    source: LabelledDomain
    """The part that is trained on."""
    held_out: LabelledDomain | None
    """The part of the source that is not."""
    target: UnlabelledDomain
    predict: Callable[[Inputs], Outputs]
    """Outputs for all rows, in order, by the network as it stands."""
    observe: Callable[[Callable[[Tensor], tuple[Tensor, ...]], Inputs], tuple[Tensor, ...]]
    """Applies a function to all rows in batches, in evaluation mode and without gradients; results on the CPU."""
    found_in_data: dict[str, Any] = field(default_factory=dict)
    """What `once` has found that depends on the data alone: the same dictionary for all epochs of a training."""
    found_this_time: dict[str, Any] = field(default_factory=dict)
    """What it has found that depends on the weights too."""

    def once(self, name: str, find: Callable[[], FoundT], *, by_data_alone: bool = False) -> FoundT:
        """What `find` gives, found once in this view or, if it depends on the data alone, once in a training.

        Buffers are fitted while a view lasts: nothing that depends on these can be kept.
        """
        known = self.found_in_data if by_data_alone else self.found_this_time
        if name not in known:
            known[name] = find()
        found: FoundT = known[name]
        return found

    @property
    def clusters_are_due(self) -> bool:
        """After the first epoch, each time that their number has grown fourfold, and at the end: networks settle."""
        return self.epoch == self.num_epochs or self.epoch in _CLUSTER_EPOCHS

    @cached_property
    def target_outputs(self) -> Outputs:
        """Of all target rows."""
        return self.predict(self.target.inputs)

    @cached_property
    def source_outputs(self) -> Outputs:
        """Of all source rows that are trained on."""
        return self.predict(self.source.inputs)

    @property
    def source_labels(self) -> Tensor:
        """(N,) class numbers."""
        return torch.from_numpy(self.source.labels)


@dataclass(frozen=True, kw_only=True)
class Method(ABC, Generic[NetworkT]):
    """Base of all methods; its fields are the options that all of them share."""

    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    """Options that go together, by the name that stands for them (`preset=NAME`)."""
    needs_target: ClassVar[bool] = False
    """Whether training without a target is an error."""
    needs_transformer: ClassVar[bool] = False
    """Whether the backbone must be a vision transformer of timm."""
    judges_apart: ClassVar[bool] = False
    """Whether the accuracy on the target is judged by something else than `predict`: see `judged_outputs`."""
    pseudo_labels_join_source: ClassVar[bool] = True
    """Whether pseudo-labelled rows are drawn as if they were source rows, or stay with the target."""

    learning_rate: float = option(1e-3, "step size of the task network", above=0)
    weight_decay: float = option(5e-4, "weight decay of all networks", at_least=0)
    optimizer: OptimizerKind = option("adamw", "adamw, or sgd with Nesterov momentum 0.9")
    schedule: Schedule = option(
        "cosine", "fall of the step sizes; cosine-7/16: only to a fifth; step: to a tenth after each third"
    )
    ema_decay: float = option(
        0.0, "predict with a moving average of the weights, a shorter one at first; 0: off", at_least=0, below=1
    )

    @property
    def target_multiple(self) -> int:
        """Target rows for each source row of a batch."""
        return 1

    @property
    def pseudo_batch_share(self) -> float | None:
        """Share of a batch's labelled rows that are pseudo-labelled ones; None: as many as there are among all."""
        return None

    @abstractmethod
    def build(self, blueprint: Blueprint) -> NetworkT:
        """A new network for a problem."""

    @abstractmethod
    def training_step(self, network: NetworkT, batch: Batch) -> Iterator[Update]:
        """Yield the losses of one step in order.

        The engine carries each out (backward, gradient exchange, optimiser) before it asks for the next, so what
        follows a yield sees the updated parameters: Algorithm 1 reads from top to bottom.
        """

    @abstractmethod
    def predict(self, network: NetworkT, inputs: Tensor) -> Outputs:
        """Outputs for a batch; called in evaluation mode and without gradients."""

    def optimizers(self, network: NetworkT) -> dict[str, OptimizerPlan]:
        """Optimisers by the name that `Update.optimizer` refers to; by default one for everything."""
        return {TASK: self.optimizer_plan(network.parameters())}

    def optimizer_plan(
        self,
        parameters: Iterable[nn.Parameter] | Iterable[dict[str, Any]],
        *,
        learning_rate: float | None = None,
        kind: OptimizerKind | None = None,
    ) -> OptimizerPlan:
        """The shared options as a plan, for some parameters or groups of them."""
        rate = self.learning_rate if learning_rate is None else learning_rate
        return OptimizerPlan(parameters, kind or self.optimizer, rate, self.weight_decay, self.schedule)

    def fit_buffers(self, network: NetworkT, view: TrainingView) -> Mapping[str, Tensor]:
        """Values of buffers, by name, that are fitted to the data and not learned by gradients; none by default.

        Called before each epoch and after the last one, where there is a target. The engine puts them into the
        network, and into its moving average where there is one.
        """
        del network, view
        return {}

    def choose_pseudo_labels(self, network: NetworkT, view: TrainingView) -> PseudoLabels | None:
        """Target rows to train on as if labelled in the coming epoch; none by default."""
        del network, view
        return None

    def judged_outputs(self, network: NetworkT, inputs: Tensor) -> tuple[Tensor, ...]:
        """Logits (N, C) that the accuracy on the target is judged by, and features (N, F) of a source reference."""
        return (self.predict(network, inputs).logits,)

    def before_adaptation(self, network: NetworkT) -> BeforeAdaptation | None:
        """What was known of the classifier before it was trained on pseudo-labels; None where it was not."""
        del network
        return None
