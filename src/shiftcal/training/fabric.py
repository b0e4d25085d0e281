"""Devices and the exchange between processes, by Lightning Fabric: one process, or those that torchrun started."""

from __future__ import annotations

import datetime
import os
import re
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from shiftcal.core.errors import InvalidInputError, ProcessLostError, ShiftcalError
from shiftcal.core.processes import is_main_process, started_by_torchrun
from shiftcal.methods.networks.classifiers import uses_batch_statistics
from shiftcal.training.options import TrainingOptions

if TYPE_CHECKING:
    from lightning_fabric import Fabric
    from lightning_fabric.strategies.ddp import DDPStrategy

_PRECISION: dict[str, Any] = {"fp32": "32-true", "bf16": "bf16-mixed"}
# Words of gloo, NCCL and the rendezvous, whose errors have no types of their own.
_LOST = re.compile(r"gloo|NCCL|timed? ?out|connection|peer|store", re.IGNORECASE)


@contextmanager
def launched_fabric(options: TrainingOptions) -> Iterator[Fabric]:
    """Fabric on the chosen device, for the block joined with the other processes where torchrun started several.

    Blocks may stand within each other: the processes stay joined until the outermost ends. Joined anew, the first of
    them could still be busy while the others look for it in vain.
    """
    # Imported by training alone: it takes as long as torch, and what only predicts has no use for it.
    from lightning_fabric import Fabric

    class OwnFabric(Fabric):
        @staticmethod
        def _configure_callbacks(callbacks: Any) -> list[Any]:  # noqa: ARG004
            """None: packages that happen to be installed have no say here, and to look through all takes a while."""
            return []

    joined_already = torch.distributed.is_initialized()
    accelerator, devices = _devices(options.device)
    with warnings.catch_warnings():
        # Fabric advises on settings (worker counts, matmul precision) that are the user's own choice here.
        warnings.simplefilter("ignore")
        fabric = OwnFabric(
            accelerator=accelerator,
            devices=devices,
            strategy=_strategy(options),
            num_nodes=_num_nodes(),
            precision=_PRECISION[options.precision],
        )
    with _lost_processes_named(options):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fabric.launch()
        try:
            yield fabric
        finally:
            if torch.distributed.is_initialized() and not joined_already:
                torch.distributed.destroy_process_group()


@contextmanager
def _lost_processes_named(options: TrainingOptions) -> Iterator[None]:
    """What the exchange between processes raises when one of them is gone or silent, as an error that says so."""
    try:
        yield
    except RuntimeError as error:
        if isinstance(error, ShiftcalError) or not started_by_torchrun() or not _LOST.search(str(error)):
            raise
        raise ProcessLostError(
            f"another process of this run has ended, or has not answered for {options.process_timeout:g} s "
            f"(process_timeout): {str(error).splitlines()[0]}. What was saved last is kept: see what became of that "
            "process, then go on with --resume."
        ) from error


def prediction_device(device: str) -> torch.device:
    """The device of one process, by the same names as for training."""
    kind, devices = _devices(device)
    return torch.device(kind, devices[0]) if isinstance(devices, list) else torch.device(kind)


def average_gradients(fabric: Fabric, parameters: Iterable[nn.Parameter], *, flag: bool) -> bool:
    """Replace each gradient by its mean over the processes; whether a flag, which travels along, is set in any.

    Losses are means over equal slices of the global batch, so this is the gradient of the global loss. It is done
    here, and not by a wrapper around the network, because a training step may have several losses that each reach
    some of the parameters.
    """
    if fabric.world_size == 1:
        return flag
    # Those of a backbone in parts are means already.
    present = (parameter.grad for parameter in parameters if parameter.grad is not None)
    gradients = [gradient for gradient in present if not isinstance(gradient, DTensor)]
    flags = torch.tensor([float(flag)], device=fabric.device)
    mean = fabric.all_reduce(torch.cat([*(gradient.flatten() for gradient in gradients), flags]), reduce_op="mean")
    assert isinstance(mean, Tensor)
    *parts, flags = torch.split(mean, [*(gradient.numel() for gradient in gradients), 1])
    for gradient, part in zip(gradients, parts, strict=True):
        gradient.copy_(part.view_as(gradient))
    return bool(flags > 0)


def any_process(fabric: Fabric, flag: bool) -> bool:
    """Whether the flag is set in any process; all must call it at the same point."""
    if fabric.world_size == 1:
        return flag
    total = fabric.all_reduce(torch.tensor(float(flag), device=fabric.device), reduce_op="sum")
    assert isinstance(total, Tensor)
    return bool(total.item() > 0)


def of_surest_process(fabric: Fabric, values: Tensor, sureness: Tensor) -> tuple[Tensor, Tensor]:
    """For each row (N,) value and sureness in the process that is surest; all must call it at the same point."""
    if fabric.world_size == 1:
        return values, sureness
    all_values, all_sureness = (fabric.all_gather(part.to(fabric.device)) for part in (values, sureness))
    assert isinstance(all_values, Tensor)
    assert isinstance(all_sureness, Tensor)
    surest, process = all_sureness.cpu().max(dim=0)
    return all_values.cpu().gather(0, process[None])[0], surest


def synchronized_batch_norm(fabric: Fabric, network: nn.Module) -> nn.Module:
    """Batch norm over the global batch where several GPU processes share it."""
    if fabric.world_size == 1 or not uses_batch_statistics(network):
        return network
    if fabric.device.type == "cuda":
        converted: nn.Module = nn.SyncBatchNorm.convert_sync_batchnorm(network)  # type: ignore[no-untyped-call]
        return converted
    if is_main_process():
        warnings.warn(
            "batch norm uses the statistics of each process's own part of the batch on CPU, so results differ "
            "from those of one process",
            stacklevel=2,
        )
    return network


@contextmanager
def own_random_state(seed: int) -> Iterator[None]:
    """Seed torch for the block and leave the caller's random state as it was."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        yield


def seed_device(seed: int, device: torch.device) -> None:
    """Seed the generators of the CPU and of the device.

    `torch.manual_seed` goes through every kind of accelerator that torch knows and formats a stack trace for each
    that is not in use: too long for every step of a small network.
    """
    torch.default_generator.manual_seed(seed)
    if device.type == "cuda":
        torch.cuda.manual_seed(seed)
    elif device.type == "mps":
        torch.mps.manual_seed(seed)


def _strategy(options: TrainingOptions) -> DDPStrategy | str:
    if not started_by_torchrun():
        return "auto"
    from lightning_fabric.strategies.ddp import DDPStrategy

    return DDPStrategy(timeout=datetime.timedelta(seconds=options.process_timeout))


def _devices(device: str) -> tuple[str, Any]:
    kind, _, index = device.partition(":")
    if kind not in ("auto", "cpu", "cuda", "mps") or (index and not index.isdigit()):
        raise InvalidInputError(f"device must be 'auto', 'cpu', 'cuda', 'cuda:N' or 'mps'. Got {device!r} instead.")
    if kind == "cuda" and not torch.cuda.is_available():
        raise InvalidInputError(
            f"device {device!r} was asked for, but torch sees no CUDA device; use 'auto' or 'cpu'"
        )
    if kind == "mps" and not torch.backends.mps.is_available():
        raise InvalidInputError("device 'mps' was asked for, but torch sees none; use 'auto' or 'cpu'")
    if kind == "auto":
        kind = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    if started_by_torchrun():
        return kind, int(os.environ.get("LOCAL_WORLD_SIZE", os.environ["WORLD_SIZE"]))
    return kind, [int(index)] if index and kind == "cuda" else 1


def _num_nodes() -> int:
    if not started_by_torchrun():
        return 1
    return int(os.environ["WORLD_SIZE"]) // int(os.environ.get("LOCAL_WORLD_SIZE", os.environ["WORLD_SIZE"]))
