"""A training step by method against the bare network on both domains: the same layers, optimiser and batches.

Times are of whole epochs after the first two, divided by their steps: labelling, clusters and validation are in them.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import torch
from benchmarks.performance.measuring import Measurement
from benchmarks.performance.peer_steps import PEERS, peer_epochs, peers_are_installed
from torch import Tensor, nn

from shiftcal.data.arrays import inputs_from
from shiftcal.data.batches import ShiftProblem
from shiftcal.data.domains import LabelledDomain, UnlabelledDomain
from shiftcal.methods.networks.backbones import BACKBONES
from shiftcal.runs.comparison.contenders import parse_contenders
from shiftcal.training.fit import fit_model
from shiftcal.training.recipe import Recipe

_BATCH_SIZE = 64
_FIRST_EPOCHS = 2
_BARS = {
    ("features", "source-only"): "at most 1.1",
    ("features", "drl"): "at most 1.2",
    ("features", "drl[ratio_network=shared]"): "at most 1.2",
    ("features", "drst"): "at most 1.8",
    ("images", "source-only"): "at most 1.1",
    ("images", "drl"): "at most 1.2",
    ("images", "drl[ratio_network=shared]"): "at most 1.2",
    ("images", "drst"): "at most 1.6",
}
# Of an epoch that takes seconds, one is enough.
_SLOW_METHODS, _FEW_EPOCHS, _MANY_EPOCHS = ("fixmatch", "drssl"), 1, 3
_METHODS = ("source-only", "drl", "drl[ratio_network=shared]", "dann", "cbst", "drst", "fixmatch", "drssl")


def measure(quick: bool) -> list[Measurement]:
    """The lines of this topic."""
    torch.set_num_threads(1)
    num_rows = 640 if quick else 6_400
    lines = []
    for kind, size in (("features", "64 + 64 rows of 1,280 features"), ("images", "64 + 64 pictures of 32 x 32")):
        source, target = new_domains(kind, num_rows)
        rivals: dict[str, float] = {}
        for method in _METHODS:
            num_epochs = 1 if quick else _FEW_EPOCHS if method in _SLOW_METHODS else _MANY_EPOCHS
            bare, own = _side_by_side(source, target, method, num_epochs, _bare_epochs(source, target))
            rivals[method] = own
            line = Measurement(f"a step of {method}", size, own, "the bare network", bare, _BARS.get((kind, method)))
            lines.append(line)
            if method == "drssl":
                lines.append(
                    replace(line, against="fixmatch", against_seconds=rivals["fixmatch"], bar="at most 1.15")
                )
            for peer in PEERS if method == "dann" and peers_are_installed() else ():
                theirs = peer_epochs(
                    peer, _new_body(source), _values(source, target), torch.from_numpy(source.labels)
                )
                seconds, own = _side_by_side(source, target, method, num_epochs, theirs)
                lines.append(replace(line, seconds=own, against=peer, against_seconds=seconds, bar="at most 1"))
    return lines


def new_domains(kind: str, num_rows: int) -> tuple[LabelledDomain, UnlabelledDomain]:
    """Made-up rows of `features` or `images`, and as many of a target that has shifted."""
    generator = np.random.default_rng(0)
    num_classes = 31 if kind == "features" else 10
    labels, of_target = generator.integers(0, num_classes, (2, num_rows))
    if kind == "features":
        centres = generator.standard_normal((num_classes, 1_280))
        noise = generator.standard_normal((2, num_rows, 1_280))
        values = [centres[labels] + 2 * noise[0], 0.8 * centres[of_target] + 2 * noise[1] + 0.3]
        arrays = [part.astype(np.float32) for part in values]
    else:
        centres = generator.uniform(0, 256, (num_classes, 32, 32, 3))
        noise = 60 * generator.standard_normal((2, num_rows, 32, 32, 3))
        values = [centres[labels] + noise[0], 0.7 * centres[of_target] + noise[1]]
        arrays = [np.clip(part, 0, 255).astype(np.uint8) for part in values]
    names = tuple(f"class {number}" for number in range(num_classes))
    source = LabelledDomain("source", inputs_from(arrays[0], "X"), labels, names)
    return source, UnlabelledDomain("target", inputs_from(arrays[1], "X_target"))


def _side_by_side(
    source: LabelledDomain, target: UnlabelledDomain, method: str, num_epochs: int, rival_epochs: Iterator[float]
) -> tuple[float, float]:
    """Seconds of a step of a rival and of a method, whose epochs take turns."""
    next(rival_epochs)
    rival, own, started = [], [], time.process_time()

    def after_epoch(history: list[dict[str, float]]) -> None:
        nonlocal started
        if len(history) > _FIRST_EPOCHS:
            own.append(time.process_time() - started)
            rival.append(next(rival_epochs))
        started = time.process_time()

    training = {"epochs": _FIRST_EPOCHS + num_epochs, "validation_fraction": 0.1, "batch_size": _BATCH_SIZE}
    (contender,) = parse_contenders(method)
    options = dict(setting.split("=") for setting in contender.settings)
    recipe = Recipe.from_names(contender.method, method_options=options, training=training)
    fit_model(ShiftProblem(source, target), recipe, after_epoch=after_epoch)
    steps = -(-round(0.9 * len(source)) // _BATCH_SIZE)
    return float(np.median(rival)), float(np.median(own)) / steps


def _new_body(source: LabelledDomain) -> nn.Module:
    shape = source.inputs.shape
    return BACKBONES["mlp" if len(shape) == 1 else "small-cnn"].build(shape)


def _values(source: LabelledDomain, target: UnlabelledDomain) -> tuple[Tensor, Tensor]:
    own, others = (inputs.fetch(np.arange(len(inputs), dtype=np.int64)) for inputs in (source.inputs, target.inputs))
    return own, others


def _bare_epochs(source: LabelledDomain, target: UnlabelledDomain) -> Iterator[float]:
    """Seconds of a step, epoch by epoch: both domains pass together, the loss is that of the source."""
    network = nn.Sequential(_new_body(source), nn.LazyLinear(len(source.classes)))
    labels = torch.from_numpy(source.labels)
    values, others = _values(source, target)
    network(values[:1])
    optimizer = torch.optim.AdamW(network.parameters(), fused=True)
    while True:
        started = time.process_time()
        orders = [torch.randperm(len(rows)) for rows in (values, others)]
        starts = range(0, len(values), _BATCH_SIZE)
        for start in starts:
            own, other = (order[start : start + _BATCH_SIZE] for order in orders)
            _bare_step(network, optimizer, torch.cat([values[own], others[other]]), labels[own])
        yield (time.process_time() - started) / len(starts)


def _bare_step(network: nn.Module, optimizer: torch.optim.Optimizer, inputs: Tensor, labels: Tensor) -> None:
    loss = nn.functional.cross_entropy(network(inputs)[: len(labels)], labels)
    optimizer.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    optimizer.step()
