"""Outputs of a network for all rows of a domain, in batches and shared by all processes."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from lightning_fabric import Fabric
from torch import Tensor, nn

from shiftcal.data.inputs import Inputs
from shiftcal.methods.base import Method, Outputs
from shiftcal.progress import progress_bar

_BATCH_SIZE = 256


@torch.inference_mode()
def predict_inputs(
    method: Method[Any], network: nn.Module, inputs: Inputs, *, device: torch.device, fabric: Fabric | None = None
) -> Outputs:
    """Outputs on the CPU, row by row as the inputs are.

    With several processes each predicts every n-th row and all of them receive everything.
    """
    rank, world_size = (0, 1) if fabric is None else (fabric.global_rank, fabric.world_size)
    rows = np.arange(rank, len(inputs), world_size, dtype=np.int64)
    was_training = network.training
    network.eval()
    parts = []
    starts = range(0, len(rows), _BATCH_SIZE)
    for start in progress_bar(starts, "predicting"):
        batch = inputs.fetch(rows[start : start + _BATCH_SIZE])
        outputs = method.predict(network, batch.to(device))
        parts.append(Outputs(*(value.float().cpu() for value in outputs)))
    network.train(was_training)
    own = Outputs(*(torch.cat(values) for values in zip(*parts, strict=True)))
    return own if fabric is None or world_size == 1 else _gathered(own, fabric, len(inputs))


def _gathered(own: Outputs, fabric: Fabric, num_rows: int) -> Outputs:
    return Outputs(*(_gathered_rows(values, fabric, num_rows) for values in own))


def _gathered_rows(values: Tensor, fabric: Fabric, num_rows: int) -> Tensor:
    """Rows rank, rank + n, rank + 2 n, ... of each process put back in order."""
    longest = -(-num_rows // fabric.world_size)
    padded = values.new_zeros(longest, *values.shape[1:])
    padded[: len(values)] = values
    everyone = fabric.all_gather(padded.to(fabric.device))
    assert isinstance(everyone, Tensor)
    return everyone.transpose(0, 1).flatten(0, 1)[:num_rows].cpu()
