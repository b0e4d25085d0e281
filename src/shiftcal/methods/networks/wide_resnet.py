"""WideResNet (Zagoruyko and Komodakis, 2016, arXiv 1605.07146) as FixMatch uses it (leaky ReLU)."""

from __future__ import annotations

import re
from collections.abc import Callable

from torch import Tensor, nn

from shiftcal.core.errors import InvalidInputError, shown


def parse_wide_resnet(name: str) -> Callable[[tuple[int, ...]], nn.Module]:
    """Builder for `wrn-DEPTH-WIDTH`, depth = 6 n + 4."""
    match = re.fullmatch(r"wrn-([0-9]{2,3})-([0-9]{1,2})", name)
    if match is None or int(match[1]) < 10 or (int(match[1]) - 4) % 6 or int(match[2]) < 1:
        raise InvalidInputError(
            "expected a WideResNet as wrn-DEPTH-WIDTH with DEPTH = 10, 16, 22, 28, ... (below 1,000), WIDTH 1 to 99, "
            f"got {shown(name)}"
        )
    blocks, width = (int(match[1]) - 4) // 6, int(match[2])
    return lambda input_shape: _wide_resnet(input_shape[0], blocks, width)


def _wide_resnet(in_channels: int, blocks: int, width: int) -> nn.Module:
    layers: list[nn.Module] = [nn.Conv2d(in_channels, 16, 3, padding=1, bias=False)]
    channels = 16
    for group, out_channels in enumerate((16 * width, 32 * width, 64 * width)):
        for block in range(blocks):
            stride = 2 if group > 0 and block == 0 else 1
            layers.append(_Block(channels, out_channels, stride, activate_shortcut=group == 0))
            channels = out_channels
    layers += [_norm(channels), _activation(), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    network = nn.Sequential(*layers)
    for module in network.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="leaky_relu")
    return network


class _Block(nn.Module):
    """Pre-activation residual block of two convolutions."""

    def __init__(self, in_channels: int, out_channels: int, stride: int, *, activate_shortcut: bool) -> None:
        super().__init__()
        # FixMatch takes the shortcut from the activated inputs in the first group, from the raw ones later.
        self.activate_shortcut = activate_shortcut
        self.entry = nn.Sequential(_norm(in_channels), _activation())
        self.residual = nn.Sequential(
            nn.Conv2d(in_channels, out_channels, 3, stride=stride, padding=1, bias=False),
            _norm(out_channels),
            _activation(),
            nn.Conv2d(out_channels, out_channels, 3, padding=1, bias=False),
        )
        same = in_channels == out_channels and stride == 1
        self.shortcut = None if same else nn.Conv2d(in_channels, out_channels, 1, stride=stride, bias=False)

    def forward(self, inputs: Tensor) -> Tensor:
        activated = self.entry(inputs)
        residual: Tensor = self.residual(activated)
        if self.shortcut is None:
            return residual + inputs
        shortcut: Tensor = self.shortcut(activated if self.activate_shortcut else inputs)
        return residual + shortcut


def _norm(channels: int) -> nn.Module:
    # FixMatch lets running statistics move by a thousandth a step, which takes far more steps than are usual here.
    return nn.BatchNorm2d(channels)


def _activation() -> nn.Module:
    return nn.LeakyReLU(0.1)
