"""This process among those of a distributed run: what may be asked anywhere, by methods too."""

from __future__ import annotations

import os

import torch.distributed
from torch import Tensor
from torch.distributed.nn.functional import all_gather, all_reduce


def started_by_torchrun() -> bool:
    """Whether this is one of several processes of a distributed run."""
    return int(os.environ.get("WORLD_SIZE", "1")) > 1


def is_main_process() -> bool:
    """Whether this process writes files and speaks to the user."""
    return int(os.environ.get("RANK", "0")) == 0


def mean_over_batch(values: Tensor) -> Tensor:
    """Mean (a scalar) over the global batch, of which each process holds an equal part; gradients pass through.

    A plain mean of a loss needs no such care, since gradients are averaged over the processes anyway. Anything
    else that mixes the samples of a batch does, or the result would depend on the number of processes.
    """
    mean = values.mean()
    if not torch.distributed.is_initialized():
        return mean
    return all_reduce(mean) / torch.distributed.get_world_size()  # type: ignore[no-untyped-call, no-any-return]


def whole_batch(values: Tensor) -> Tensor:
    """Rows of the global batch, of which each process holds an equal part; gradients pass through.

    For a loss that is not made of means over the batch, such as one of covariances: all processes work it out.
    """
    if not torch.distributed.is_initialized():
        return values
    return torch.cat(all_gather(values))  # type: ignore[no-untyped-call]


def mean_over_processes(values: Tensor) -> Tensor:
    """Element-wise mean over the processes of statistics that take no part in gradients."""
    if not torch.distributed.is_initialized():
        return values
    total = values.clone()
    torch.distributed.all_reduce(total)
    return total / torch.distributed.get_world_size()
