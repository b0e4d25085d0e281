"""What tests of single training steps share: a small network's blueprint and one batch of the features problem."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import pytest
import torch

from shiftcal.data.batches import Batch, ShiftProblem
from shiftcal.data.domains import LabelledDomain, UnlabelledDomain
from shiftcal.data.inputs import ArrayInputs, Inputs
from shiftcal.data.views import ViewMaker
from shiftcal.methods.base import TASK, Method, Outputs, TrainingView
from shiftcal.methods.networks.backbones import InputStatistics, build_backbone
from shiftcal.methods.networks.classifiers import Blueprint
from shiftcal.training.optimizers import build_optimizer


@pytest.fixture
def blueprint(features: ShiftProblem) -> Blueprint:
    """Networks built from it have the same weights in every run."""
    torch.manual_seed(0)
    statistics = InputStatistics(torch.zeros(4), torch.ones(4))
    assert features.target is not None
    num_target_rows = len(features.target)
    return Blueprint(lambda: build_backbone("mlp", (4,), statistics), 3, True, num_target_rows)


@pytest.fixture
def batch(features: ShiftProblem) -> Batch:
    assert features.target is not None
    rows = np.arange(16, dtype=np.int64)
    labels = torch.from_numpy(features.source.labels[rows])
    return Batch(
        source_inputs=features.source.inputs.fetch(rows),
        source_labels=labels,
        soft_labels=torch.eye(3)[labels],
        is_pseudo=torch.zeros(16, dtype=torch.bool),
        target_inputs=features.target.inputs.fetch(rows),
        target_rows=torch.from_numpy(rows),
        views=ViewMaker(0, 0),
        progress=0.5,
    )


@pytest.fixture
def image_batch() -> Callable[[int], tuple[Blueprint, Batch]]:
    """Of a small network for images with a number of channels, and a batch of which every other row is selected."""

    def make(num_channels: int) -> tuple[Blueprint, Batch]:
        shape = (num_channels, 16, 16)
        statistics = InputStatistics(torch.zeros(num_channels), torch.ones(num_channels))
        labels, is_pseudo = torch.tensor([0, 1, 2, 0, 1, 2]), torch.tensor([False, True] * 3)
        torch.manual_seed(0)
        inputs, target = torch.rand(2, 6, *shape)
        return (
            Blueprint(lambda: build_backbone("small-cnn", shape, statistics), 3, has_target=True),
            Batch(inputs, labels, torch.eye(3)[labels], is_pseudo, target, torch.arange(6), ViewMaker(0, 0), 0.5),
        )

    return make


ViewOf = Callable[..., TrainingView]


@pytest.fixture
def view_of() -> ViewOf:
    """What a method may look at before an epoch of ten; the source stands for the held-out rows."""

    def make(
        method: Method[Any], network: torch.nn.Module, problem: ShiftProblem, epoch: int, *, held_out: bool = True
    ) -> TrainingView:
        assert problem.target is not None

        @torch.no_grad()
        def observe(function: Callable[..., Any], inputs: Inputs) -> Any:
            return function(inputs.fetch(np.arange(len(inputs), dtype=np.int64)))

        return TrainingView(
            epoch,
            10,
            problem.source,
            problem.source if held_out else None,
            problem.target,
            lambda inputs: observe(lambda rows: method.predict(network, rows), inputs),
            observe,
        )

    return make


OutputsView = Callable[..., TrainingView]


@pytest.fixture
def outputs_view() -> OutputsView:
    """What a method may look at, given what the network says of the rows of each domain, and source labels."""

    def make(
        epoch: int, num_epochs: int, source: Outputs, target: Outputs, labels: torch.Tensor | None = None
    ) -> TrainingView:
        codes = np.zeros(len(source.logits), dtype=np.int64) if labels is None else labels.numpy().astype(np.int64)
        inputs = [ArrayInputs(torch.zeros(len(part.logits), 1)) for part in (source, target)]
        return TrainingView(
            epoch,
            num_epochs,
            LabelledDomain("source", inputs[0], codes, tuple(range(source.logits.shape[1]))),
            None,
            UnlabelledDomain("target", inputs[1]),
            lambda rows: source if rows is inputs[0] else target,
            lambda function, rows: (),
        )

    return make


def put(network: torch.nn.Module, values: Mapping[str, torch.Tensor]) -> None:
    """Buffers as the engine sets them."""
    for name, value in values.items():
        network.get_buffer(name).copy_(value)


@pytest.fixture
def put_buffers() -> Callable[[torch.nn.Module, Mapping[str, torch.Tensor]], None]:
    return put


MovedParts = Callable[[Method[Any], torch.nn.Module, Batch], Iterator[set[str]]]


@pytest.fixture
def moved_parts() -> MovedParts:
    """The parts of a network that each update of a training step moves, all by the one optimiser."""

    def carry_out(method: Method[Any], network: torch.nn.Module, batch: Batch) -> Iterator[set[str]]:
        optimizer = build_optimizer(method.optimizers(network)[TASK])
        for update in method.training_step(network, batch):
            before = {name: value.clone() for name, value in network.named_parameters()}
            network.zero_grad()
            update.loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            yield {name.split(".")[0] for name, value in network.named_parameters() if not value.equal(before[name])}

    return carry_out
