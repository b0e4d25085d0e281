"""What the methods train: a classifier, and one that tells domains apart."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.nn.functional import layer_norm, linear

from shiftcal.core.errors import InvalidInputError
from shiftcal.methods.networks.backbones import Backbone

# Asked several times in every step; to go through the modules each time takes as long as a small layer.
_USES_BATCH_STATISTICS: WeakKeyDictionary[nn.Module, bool] = WeakKeyDictionary()


@dataclass(frozen=True)
class Blueprint:
    """What a method needs to know of the problem to build its network."""

    new_backbone: Callable[[], Backbone]
    num_classes: int
    has_target: bool
    num_target_rows: int = 0
    """For methods that keep something per row of the target."""
    initial_weights: Mapping[str, Tensor] | None = None
    """Backbone and head of another classifier, see `Classifier.weights`, that every classifier starts from."""
    initial_weights_know_target: bool = False
    """Whether that classifier was adapted to a target."""


class Classifier(nn.Module):
    """A backbone and a linear head."""

    def __init__(self, blueprint: Blueprint) -> None:
        super().__init__()
        self.backbone = blueprint.new_backbone()
        self.head = nn.Linear(self.backbone.feature_dim, blueprint.num_classes)
        if blueprint.initial_weights is not None:
            try:
                self.load_state_dict(blueprint.initial_weights)
            except RuntimeError as error:
                raise InvalidInputError(f"the classifier to start from has another form: {error}") from error

    def forward(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Logits (N, C) and features (N, F)."""
        features = self.backbone(inputs)
        return self.head(features), features

    def weights(self) -> dict[str, Tensor]:
        """State of backbone and head, without what a child class may have besides."""
        return {name: value for name, value in self.state_dict().items() if name.startswith(("backbone.", "head."))}


class SteadyClassifier(Classifier):
    """A classifier whose features have mean 0 and variance 1 within each row, so that they can't shrink to nothing.

    For losses that small features would satisfy without any adaptation. In the published networks of such methods
    batch normalisation stands in the way of that; here a backbone may be anything.
    """

    def features(self, inputs: Tensor) -> Tensor:
        """Features (N, F)."""
        features = self.backbone(inputs)
        return layer_norm(features, features.shape[-1:])

    def forward(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Logits (N, C) and features (N, F)."""
        features = self.features(inputs)
        return self.head(features), features


class DomainClassifier(nn.Module):
    """Logit (N,) of "source" from features: two layers with tanh, as the authors' ratio head."""

    def __init__(self, feature_dim: int, hidden_dim: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(feature_dim, hidden_dim), nn.Tanh(), nn.Linear(hidden_dim, 1))
        # Starts at logit 0, so at ratio 1: no shift is claimed before any was seen.
        nn.init.zeros_(self.layers[-1].weight)  # type: ignore[arg-type]
        nn.init.zeros_(self.layers[-1].bias)  # type: ignore[arg-type]

    def forward(self, features: Tensor) -> Tensor:
        """Unbounded domain logit (N,)."""
        logit: Tensor = self.layers(features)
        return logit.squeeze(-1)


class Discriminator(nn.Module):
    """The same with three layers and ReLU, for a game against the features: a weak player would teach them little."""

    def __init__(self, feature_dim: int, hidden_dim: int) -> None:
        super().__init__()
        widths = (feature_dim, hidden_dim, hidden_dim)
        hidden = (nn.Sequential(nn.Linear(*pair), nn.ReLU()) for pair in itertools.pairwise(widths))
        self.layers = nn.Sequential(*hidden, nn.Linear(hidden_dim, 1))

    def forward(self, features: Tensor) -> Tensor:
        """Domain logit (N,) of "source"."""
        logit: Tensor = self.layers(features)
        return logit.squeeze(-1)


class ClassifierWithDiscriminator(nn.Module):
    """A classifier, and a discriminator of domains on its features."""

    def __init__(self, blueprint: Blueprint, new_discriminator: Callable[[int], nn.Module]) -> None:
        super().__init__()
        self.task = Classifier(blueprint)
        self.domain = new_discriminator(self.task.backbone.feature_dim)


class DomainOutputs(NamedTuple):
    """What a classifier gives for one part of a batch, such as a domain or a view of it."""

    logits: Tensor
    """(N, C)."""
    features: Tensor
    """(N, F)."""

    def taken(self, rows: Tensor) -> DomainOutputs:
        """Of some of the rows, by a mask (N,)."""
        numbers = rows.nonzero().squeeze(-1)
        return DomainOutputs(self.logits.index_select(0, numbers), self.features.index_select(0, numbers))

    def detached(self) -> DomainOutputs:
        """The same without gradients."""
        return DomainOutputs(self.logits.detach(), self.features.detach())


def classify_jointly(network: Classifier, *inputs: Tensor) -> tuple[DomainOutputs, ...]:
    """Source and target, or views of them, in one pass; the outputs of each in the order of the inputs.

    Batch-norm layers then train with statistics of the mixture, which are also what they keep for prediction. In
    several passes each part would be normalised by itself: the loss would see less of a shift than there is in
    prediction, and the last part to pass would count most in what is kept.
    """
    logits, features = network(torch.cat(inputs))
    sizes = [len(part) for part in inputs]
    return tuple(DomainOutputs(*parts) for parts in zip(logits.split(sizes), features.split(sizes), strict=True))


@contextmanager
def frozen_statistics(network: nn.Module) -> Iterator[None]:
    """Within the block batch-norm layers use and keep their running statistics.

    A task network is to see source inputs only; without this, target inputs that pass through it for their
    features would move the statistics that its source training relies on.
    """
    modules = network.modules() if uses_batch_statistics(network) else ()
    layers = [module for module in modules if isinstance(module, nn.modules.batchnorm._BatchNorm) and module.training]
    for layer in layers:
        layer.eval()
    try:
        yield
    finally:
        for layer in layers:
            layer.train()


@contextmanager
def untracked_statistics(network: nn.Module) -> Iterator[None]:
    """Within the block batch-norm layers use the statistics of the batch and keep none of them.

    For a further look at perturbed inputs of a batch, which is to differ from the first in the perturbation only.
    """
    layers = [module for module in network.modules() if isinstance(module, nn.modules.batchnorm._BatchNorm)]
    momenta = [layer.momentum for layer in layers]
    for layer in layers:
        layer.momentum = 0.0
    try:
        yield
    finally:
        for layer, momentum in zip(layers, momenta, strict=True):
            layer.momentum = momentum


def uses_batch_statistics(network: nn.Module) -> bool:
    """Whether a row's features depend, in training mode, on the other rows of its batch."""
    if network not in _USES_BATCH_STATISTICS:
        _USES_BATCH_STATISTICS[network] = any(
            isinstance(module, nn.modules.batchnorm._BatchNorm) for module in network.modules()
        )
    return _USES_BATCH_STATISTICS[network]


@torch.no_grad()
def observed(network: Classifier, inputs: Tensor) -> DomainOutputs:
    """Outputs without gradients and without a trace in the network."""
    with frozen_statistics(network):
        return DomainOutputs(*network(inputs))


def task_outputs(network: Classifier, inputs: Tensor) -> tuple[Tensor, DomainOutputs]:
    """Logits of source inputs in training, and outputs as those of the target are taken (`observed`).

    Under batch normalisation features of the source by batch statistics and of the target by running ones differ: a
    ratio would tell the two kinds of statistics apart instead of the domains.
    """
    outputs = DomainOutputs(*network(inputs))
    return outputs.logits, observed(network, inputs) if uses_batch_statistics(network) else outputs


def through_fixed(layer: nn.Linear, features: Tensor) -> Tensor:
    """What a layer gives, for a loss that is to move what comes before the layer and not the layer itself."""
    return linear(features, layer.weight.detach(), layer.bias.detach())
