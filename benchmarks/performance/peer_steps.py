"""Epochs of `dann` as pytorch-adapt and skada have it, with the layers, optimiser and batches of the bare network."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import numpy as np
import sklearn
import torch
from benchmarks.peer_check import peer
from torch import Tensor, nn
from torch.optim import AdamW

from shiftcal.core.vision_guard import import_torchvision

PEERS = ("pytorch-adapt", "skada")
# Of each domain; of the discriminator, as ours has it by default.
_BATCH_SIZE, _HIDDEN = 64, 256


class PeerNetwork(nn.Module):
    """A body and a head, in the form that skada takes."""

    def __init__(self, body: nn.Module, feature_dim: int, num_classes: int) -> None:
        super().__init__()
        self.body = body
        self.head = nn.Linear(feature_dim, num_classes)

    def forward(self, inputs: Tensor, sample_weight: Tensor | None = None) -> Tensor:
        """Logits (N, C); skada passes weights that nothing here has use for."""
        del sample_weight
        logits: Tensor = self.head(self.body(inputs))
        return logits


def peers_are_installed() -> bool:
    """Whether both are at hand; `make bench` sees to it."""
    return all(find_spec(name.replace("-", "_")) is not None for name in PEERS)


def peer_epochs(name: str, body: nn.Module, inputs: tuple[Tensor, Tensor], labels: Tensor) -> Iterator[float]:
    """Processor seconds of a step, epoch by epoch.

    Args:
        name: of `PEERS`.
        body: what comes before the head.
        inputs: of source and target.
        labels: (N,) of the source.
    """
    network = PeerNetwork(body, body(inputs[0][:1]).shape[1], int(labels.max()) + 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the peers use what torch and sklearn have since deprecated
        yield from (_pytorch_adapt if name == "pytorch-adapt" else _skada)(network, inputs, labels)


def _pytorch_adapt(network: PeerNetwork, inputs: tuple[Tensor, Tensor], labels: Tensor) -> Iterator[float]:
    import_torchvision()
    adapters, containers = peer("pytorch_adapt.adapters"), peer("pytorch_adapt.containers")
    discriminator = peer("pytorch_adapt.models").Discriminator(in_size=network.head.in_features, h=_HIDDEN)
    adapter = adapters.DANN(
        models=containers.Models({"G": network.body, "C": network.head, "D": discriminator}),
        optimizers=containers.Optimizers((AdamW, {"lr": 1e-3, "fused": True})),
    )
    domains: dict[str, Tensor] = {"src_domain": torch.zeros(_BATCH_SIZE), "target_domain": torch.ones(_BATCH_SIZE)}
    starts = range(0, len(labels) - _BATCH_SIZE + 1, _BATCH_SIZE)
    while True:
        started = time.process_time()
        own_order, other_order = (torch.randperm(len(rows)) for rows in inputs)
        for start in starts:
            own, other = (order[start : start + _BATCH_SIZE] for order in (own_order, other_order))
            drawn = {"src_imgs": inputs[0][own], "src_labels": labels[own], "target_imgs": inputs[1][other]}
            adapter.training_step(drawn | domains)
        yield (time.process_time() - started) / len(starts)


def _skada(network: PeerNetwork, inputs: tuple[Tensor, Tensor], labels: Tensor) -> Iterator[float]:
    # Two hidden layers, as ours has them; a sigmoid at the end is what skada's loss asks for.
    discriminator = nn.Sequential(
        *(nn.Linear(network.head.in_features, _HIDDEN), nn.ReLU()),
        *(nn.Linear(_HIDDEN, _HIDDEN), nn.ReLU()),
        *(nn.Linear(_HIDDEN, 1), nn.Sigmoid(), nn.Flatten(0)),
    )
    estimator_class = peer("skada.deep").DANN
    # To import skada switches this on for all that sklearn does in the process, ours included.
    sklearn.set_config(enable_metadata_routing=False)
    estimator: Any = estimator_class(
        network,
        layer_name="body",
        domain_classifier=discriminator,
        iterator_train__max_samples="source",
        max_epochs=1,
        warm_start=True,
        batch_size=_BATCH_SIZE,
        train_split=None,
        optimizer=AdamW,
        optimizer__fused=True,
        verbose=0,
    )
    values = torch.cat(inputs).numpy()
    unknown = np.full(len(inputs[1]), -1, dtype=np.int64)
    domains = np.repeat([1, -2], [len(rows) for rows in inputs])
    while True:
        started = time.process_time()
        with sklearn.config_context(enable_metadata_routing=True):
            estimator.fit(values, np.concatenate([labels.numpy(), unknown]), domains)
        yield (time.process_time() - started) / (len(labels) // _BATCH_SIZE)
