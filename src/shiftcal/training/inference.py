"""Outputs of a network for all rows of a domain, in batches and shared by all processes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from shiftcal.core.errors import UserCodeError
from shiftcal.core.progress import progress_bar
from shiftcal.data.inputs import Inputs
from shiftcal.functional.averaging import log_mean_probabilities
from shiftcal.methods.base import Method, Outputs

if TYPE_CHECKING:
    from lightning_fabric import Fabric

# Numbers of a batch of vectors, so that it stays in the processor's cache, and the fewest and most rows: of fewer the
# calls themselves take time, on a GPU most of all.
_BATCH_NUMBERS = 2**19
_FEWEST_ROWS, _MOST_ROWS = 256, 8192
# Activations of pictures are larger than themselves: those of 256 left the cache, and took half as long again.
_PICTURES_ON_CPU = 64


def predict_inputs(
    method: Method[Any],
    network: nn.Module,
    inputs: Inputs,
    *,
    device: torch.device,
    fabric: Fabric | None = None,
    flip_average: bool = False,
    finish: Callable[[Outputs], Outputs] | None = None,
    keep_inputs: bool = False,
) -> Outputs:
    """Outputs for all rows, on the CPU.

    Args:
        method, network: what predicts.
        inputs: all rows.
        device: of the network.
        fabric: of several processes that share the rows.
        flip_average: images are averaged with their mirror images.
        finish: applied to the outputs of each batch, on the CPU and with the inputs that are vectors.
        keep_inputs: give inputs that are vectors along with the outputs.
    """
    predict = _batch_predictor(method, network, inputs, flip_average, finish, keep_inputs)
    return Outputs(*observe_rows(predict, network, inputs, device, fabric))


def predict_batches(
    method: Method[Any],
    network: nn.Module,
    inputs: Inputs,
    *,
    device: torch.device,
    flip_average: bool = False,
    finish: Callable[[Outputs], Outputs] | None = None,
) -> Iterator[Outputs]:
    """The same as `predict_inputs` batch by batch, in one process: memory does not grow with the rows."""
    predict = _batch_predictor(method, network, inputs, flip_average, finish, keep_inputs=False)
    for outputs in _observed_batches(predict, network, inputs, device, range(len(inputs))):
        yield Outputs(*outputs)


def _batch_predictor(
    method: Method[Any],
    network: nn.Module,
    inputs: Inputs,
    flip_average: bool,
    finish: Callable[[Outputs], Outputs] | None,
    keep_inputs: bool,
) -> Callable[[Tensor], tuple[Tensor, ...]]:
    is_image = inputs.kind == "images"

    def predict(batch: Tensor) -> tuple[Tensor, ...]:
        outputs = method.predict(network, batch)
        if flip_average and is_image:
            outputs = _mean_outputs(outputs, method.predict(network, batch.flip(-1)))
        if finish is not None:
            logits, ratio, features = (value.float().cpu() for value in outputs[:3])
            outputs = finish(Outputs(logits, ratio, features, None if is_image else batch.cpu()))
        kept = (batch,) if keep_inputs and not is_image else ()
        return outputs.logits, outputs.density_ratio, outputs.features, *kept

    return predict


def _mean_outputs(*several: Outputs) -> Outputs:
    """Mean probabilities (as logits) and features, and the geometric mean of the density ratios."""
    logits, density_ratio, features = (
        torch.stack(values) for values in zip(*(outputs[:3] for outputs in several), strict=True)
    )
    # A ratio of 1/10 and one of 10 are as far from 1: their logarithms are what has a mean.
    return Outputs(log_mean_probabilities(logits), density_ratio.log().mean(dim=0).exp(), features.mean(dim=0))


def observe_rows(
    function: Callable[[Tensor], tuple[Tensor, ...]],
    network: nn.Module,
    inputs: Inputs,
    device: torch.device,
    fabric: Fabric | None,
) -> tuple[Tensor, ...]:
    """A function of a batch applied to all rows with the network in evaluation mode, on the CPU, row by row.

    With several processes each takes every n-th row and all of them receive everything.
    """
    rank, world_size = (0, 1) if fabric is None else (fabric.global_rank, fabric.world_size)
    rows = range(rank, len(inputs), world_size)
    own: tuple[Tensor, ...] = ()
    num_seen = 0
    for values in _observed_batches(function, network, inputs, device, rows):
        # Filled bit by bit, and not joined in the end: parts and the whole would take twice the memory.
        own = own or tuple(torch.empty(len(rows), *value.shape[1:]) for value in values)
        for whole, part in zip(own, values, strict=True):
            whole[num_seen : num_seen + len(part)] = part
        num_seen += len(values[0])
    if fabric is None or world_size == 1:
        return own
    return tuple(_gathered_rows(values, fabric, len(inputs)) for values in own)


@torch.inference_mode()
def _observed_batches(
    function: Callable[[Tensor], tuple[Tensor, ...]],
    network: nn.Module,
    inputs: Inputs,
    device: torch.device,
    rows: range,
) -> Iterator[tuple[Tensor, ...]]:
    """What a function gives for each batch of rows, as float32 on the CPU."""
    size = _batch_size(inputs, device)
    was_training = network.training
    network.eval()
    try:
        for start in progress_bar(range(0, len(rows), size), "predicting"):
            chosen = rows[start : start + size]
            batch = inputs.fetch_span(chosen)
            try:
                values = tuple(value.float().cpu() for value in function(batch.to(device)))
            except UserCodeError as error:
                raise UserCodeError(f"{error} (among rows {chosen[0]} to {chosen[-1]})") from error.__cause__
            yield values
    finally:
        network.train(was_training)


def _batch_size(inputs: Inputs, device: torch.device) -> int:
    if inputs.kind == "images" and device.type == "cpu":
        return _PICTURES_ON_CPU
    return min(max(_BATCH_NUMBERS // math.prod(inputs.shape), _FEWEST_ROWS), _MOST_ROWS)


def _gathered_rows(values: Tensor, fabric: Fabric, num_rows: int) -> Tensor:
    """Rows rank, rank + n, rank + 2 n, ... of each process put back in order."""
    longest = -(-num_rows // fabric.world_size)
    padded = values.new_zeros(longest, *values.shape[1:])
    padded[: len(values)] = values
    everyone = fabric.all_gather(padded.to(fabric.device))
    assert isinstance(everyone, Tensor)
    return everyone.transpose(0, 1).flatten(0, 1)[:num_rows].cpu()
