"""Backbones in parts, in two real processes: the same weights as in one, and whole states that go both ways."""

import sys
from pathlib import Path

import pytest
import torch
from tests.processes import Programs

# Each process has four of eight rows; a large backbone, so that its blocks are parts of their own.
PROGRAM = """
import copy, types, torch.distributed as processes
from torch import nn
from shiftcal.methods.networks.classifiers import Blueprint, Classifier
from shiftcal.training import sharding
from shiftcal.training.fabric import average_gradients
sharding._FEWEST_WEIGHTS = 100

class Backbone(nn.Module):
    feature_dim = 8
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 40), nn.Tanh(), nn.Linear(40, 8))
    def forward(self, inputs):
        return self.layers(inputs)

processes.init_process_group("gloo", init_method=f"file://{folder}/meeting{world}", rank=rank, world_size=world)

def all_reduce(values, reduce_op):
    processes.all_reduce(values)
    return values / world

fabric = types.SimpleNamespace(device=torch.device("cpu"), world_size=world, all_reduce=all_reduce)

def new():
    torch.manual_seed(0)
    network = Classifier(Blueprint(Backbone, 3, True))
    if world > 1:
        sharding.shard_backbones(fabric, network)
    return network, torch.optim.AdamW(network.parameters(), lr=0.1)

rows = torch.randn(8, 4, generator=torch.Generator().manual_seed(1)).chunk(world)[rank]

def step(network, optimizer):
    network.zero_grad()
    network(rows)[0].square().mean().backward()
    average_gradients(fabric, network.parameters(), flag=False)
    sharding.clip_gradients(network.parameters(), 0.01)
    optimizer.step()
    with torch.no_grad():
        network(rows)  # leaves nothing behind

first = new()
for _ in range(2):
    step(*first)
states = copy.deepcopy([sharding.whole(part.state_dict()) for part in first])
second = new()
sharding.load_whole(second[0], states[0])
sharding.load_whole_moments(second[1], states[1])
step(*first)
step(*second)
with sharding.gathered_weights(second[0]), torch.inference_mode():
    said = [second[0](rows)[0] for _ in range(1 + rank)][-1]  # as often as each likes
found = [sharding.whole(network.state_dict()) for network, _ in (first, second)]
if rank == 0:
    torch.save((*found, said), f"{folder}/{world}.pt")
processes.destroy_process_group()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there is no fork")
def test_parts_are_trained_saved_and_loaded_as_a_whole_would_be(programs: Programs, tmp_path: Path) -> None:
    running = [
        programs.start(PROGRAM, folder=str(tmp_path), rank=rank, world=world)
        for world in (1, 2)
        for rank in range(world)
    ]
    programs.finish(*running)
    (whole, _, said), (first, second, said_in_parts) = (torch.load(tmp_path / f"{world}.pt") for world in (1, 2))
    torch.testing.assert_close(first, whole)
    torch.testing.assert_close(second, first, rtol=0, atol=0)
    torch.testing.assert_close(said_in_parts, said[:4])
