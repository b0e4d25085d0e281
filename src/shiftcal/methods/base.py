"""What a method is: options, a network, a training step that yields losses, and a prediction.

A method holds options and mathematics only. Everything that changes in training lives in the network it builds
(parameters and buffers), so that one engine can train, average, save and resume all of them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, Literal, NamedTuple, TypeVar

from torch import Tensor, nn

from shiftcal.core.options import option
from shiftcal.data.batches import Batch, PseudoLabels
from shiftcal.data.domains import LabelledDomain, UnlabelledDomain
from shiftcal.data.inputs import Inputs
from shiftcal.methods.networks.classifiers import Blueprint

OptimizerKind = Literal["adamw", "sgd"]
Schedule = Literal["constant", "cosine", "cosine-7/16", "step"]
NetworkT = TypeVar("NetworkT", bound=nn.Module)

TASK = "task"
RATIO = "ratio"


class Outputs(NamedTuple):
    """What a network says of a batch of inputs."""

    logits: Tensor
    """(N, C), of which the probabilities are the softmax."""
    density_ratio: Tensor
    """(N,) estimated P_source(x) / P_target(x); ones where the method models no shift."""
    features: Tensor
    """(N, F) of the task network, for calibrators and diagnostics."""


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
    """One optimiser step that a training step asks for."""

    optimizer: str
    loss: Tensor
    logged: Mapping[str, Tensor] = field(default_factory=dict)
    """Scalars for the progress bar and the history."""
    accepted: Accepted | None = None
    """Pseudo-labels of this step, for diagnostics, from methods that choose them batch by batch."""


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
class Evidence:
    """What a method may look at before an epoch or after training, to set what it can't learn by gradients."""

    source: LabelledDomain
    """The part that was trained on."""
    held_out: LabelledDomain | None
    """The part of the source that was not."""
    target: UnlabelledDomain | None
    observe: Callable[[Callable[[Tensor], tuple[Tensor, ...]], Inputs], tuple[Tensor, ...]]
    """Applies a function to all rows in batches, in evaluation mode and without gradients; results on the CPU."""


@dataclass(frozen=True)
class EpochOutlook:
    """What a method may look at before an epoch, to choose pseudo-labels."""

    epoch: int
    num_epochs: int
    predict_source: Callable[[], Outputs]
    """Outputs for all source rows that are trained on, in order, by the network as it stands."""
    predict_target: Callable[[], Outputs]
    """The same for all target rows."""
    source_labels: Tensor
    """(N,) class numbers of the source rows."""
    evidence: Evidence
    """The data, and a way to look at it with the network as it stands."""
    trained_network: nn.Module
    """What is trained, where the network that predicts is its moving average: to remember something, set both."""


@dataclass(frozen=True, kw_only=True)
class Method(ABC, Generic[NetworkT]):
    """Base of all methods; its fields are the options that all of them share."""

    needs_target: ClassVar[bool] = False
    """Whether training without a target is an error."""
    needs_transformer: ClassVar[bool] = False
    """Whether the backbone must be a vision transformer of timm."""
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

    def conclude(self, network: NetworkT, evidence: Evidence) -> dict[str, float]:
        """Set buffers of the trained network that follow from the data, and give findings for the user."""
        del network, evidence
        return {}

    def choose_pseudo_labels(self, network: NetworkT, outlook: EpochOutlook) -> PseudoLabels | None:
        """Target rows to train on as if labelled in the coming epoch; none by default."""
        del network, outlook
        return None
