from __future__ import annotations

import pytest
import torch
from torch import nn

from shiftcal.core.errors import InvalidInputError
from shiftcal.methods.networks.wide_resnet import parse_wide_resnet


def num_parameters(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def test_wrn_28_2_has_the_published_size() -> None:
    # 1.5 M in FixMatch; 1,467,610 by hand: the body, and a head of 128 weights and a bias for each of 10 classes.
    body = parse_wide_resnet("wrn-28-2")((3, 32, 32))
    assert num_parameters(body) + num_parameters(nn.Linear(128, 10)) == 1_467_610


@pytest.mark.parametrize("depth", [10, 16, 22, 28])
def test_depth_is_the_number_of_convolutions(depth: int) -> None:
    body = parse_wide_resnet(f"wrn-{depth}-2")((3, 32, 32))
    assert sum(isinstance(module, nn.Conv2d) for module in body.modules()) == depth


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("size", [8, 28, 32])
def test_features_are_64_times_the_width(channels: int, size: int) -> None:
    body = parse_wide_resnet("wrn-10-2")((channels, size, size)).eval()
    assert body(torch.zeros(2, channels, size, size)).shape == (2, 128)


def test_gradients_reach_every_parameter() -> None:
    torch.manual_seed(0)
    body = parse_wide_resnet("wrn-16-1")((1, 8, 8))
    body(torch.rand(4, 1, 8, 8)).square().sum().backward()
    for name, parameter in body.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().sum() > 0, name


@pytest.mark.parametrize("name", ["wrn-28", "wrn-27-2", "wrn-4-2", "wrn-28-0", "wrn-a-b", "wrn-28-2x", "wrn--28-2"])
def test_other_names_are_told_the_form(name: str) -> None:
    with pytest.raises(InvalidInputError, match=rf"wrn-DEPTH-WIDTH with DEPTH = 10, 16, .*got '{name}'"):
        parse_wide_resnet(name)
