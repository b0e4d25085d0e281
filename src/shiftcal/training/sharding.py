"""Backbones in parts (FSDP): each process keeps its part of the weights, of their gradients and moments.

Weights are gathered block by block while a batch passes, and as a whole while rows are predicted. Heads and density
ratios, which are small, stay whole in every process. Checkpoints hold whole weights, whatever trained them.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.utils._pytree import tree_map

from shiftcal.methods.networks.classifiers import Classifier

if TYPE_CHECKING:
    from lightning_fabric import Fabric

# Blocks with fewer weights are gathered together with what they stand in.
_FEWEST_WEIGHTS = 1_000_000


def shard_backbones(fabric: Fabric, network: nn.Module) -> None:
    """Leave to this process its part of the backbones, in place; optimisers are to be built afterwards."""
    mesh = init_device_mesh(fabric.device.type, (fabric.world_size,))
    for classifier in [module for module in network.modules() if isinstance(module, Classifier)]:
        for block in _blocks(classifier.backbone):
            # Also the outermost, or a pass without gradients would leave its weights behind as they were then.
            fully_shard(block, mesh=mesh, reshard_after_forward=True)


def _blocks(backbone: nn.Module) -> Iterator[nn.Module]:
    """Large parts that follow one another, the innermost first, and the backbone itself."""
    chains = (module for module in backbone.modules() if isinstance(module, (nn.Sequential, nn.ModuleList)))
    links = [link for chain in chains for link in chain if not isinstance(link, nn.ModuleList)]
    large = [link for link in links if sum(weight.numel() for weight in link.parameters()) >= _FEWEST_WEIGHTS]
    yield from reversed(list(dict.fromkeys(large)))
    yield backbone


@contextmanager
def gathered_weights(network: nn.Module) -> Iterator[None]:
    """Whole weights in every process for the block, in which processes may use the network as often as they like.

    All must enter and leave it at the same point.
    """
    parts = [module for module in network.modules() if isinstance(module, FSDPModule)]
    for part in parts:
        part.set_reshard_after_forward(False, recurse=False)
        part.unshard()
    try:
        yield
    finally:
        for part in parts:
            part.reshard()
            part.set_reshard_after_forward(True, recurse=False)


def whole(values: Any) -> Any:
    """A state, or any nest of values, with tensors that were in parts as a whole, on the CPU: it may have more room.

    All processes must call it at the same point.
    """
    return tree_map(lambda value: value.full_tensor().cpu() if isinstance(value, DTensor) else value, values)


def whole_copy(network: nn.Module, form: nn.Module) -> nn.Module:
    """A network of the given form with the whole weights of another; all processes must call it together."""
    filled = copy.deepcopy(form)
    filled.load_state_dict(whole(network.state_dict()))
    return filled


def load_whole(network: nn.Module, state: Mapping[str, Any]) -> None:
    """Load a state with whole tensors into a network, of which this process may have a part."""
    network.load_state_dict({name: _like(state[name], value) for name, value in network.state_dict().items()})


def load_whole_moments(optimizer: torch.optim.Optimizer, state: Mapping[str, Any]) -> None:
    """The same for the state of an optimiser."""
    weights = [weight for group in optimizer.param_groups for weight in group["params"]]
    moments = {
        number: {name: _like(value, weights[number]) for name, value in of_weight.items()}
        for number, of_weight in state["state"].items()
    }
    optimizer.load_state_dict({**state, "state": moments})


def _like(value: Any, model: Any) -> Any:
    """A whole tensor in parts, where that which it belongs to is."""
    if not isinstance(model, DTensor) or not isinstance(value, Tensor) or value.shape != model.shape:
        return value
    return distribute_tensor(value.to(model.device), model.device_mesh, model.placements)


def own_part(values: Tensor) -> Tensor:
    """What this process has of a tensor."""
    return values.to_local() if isinstance(values, DTensor) else values


def clip_gradients(parameters: Iterable[nn.Parameter], largest_norm: float) -> None:
    """Scale gradients, some of which may be in parts, so that together they have at most that norm."""
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    norms = [torch.linalg.vector_norm(each) for each in gradients]
    of_all = [norm.full_tensor() if isinstance(norm, DTensor) else norm for norm in norms]
    norm = torch.linalg.vector_norm(torch.stack(of_all))
    factor = (largest_norm / (norm + 1e-6)).clamp(max=1)
    for gradient in gradients:
        gradient.mul_(factor)
