"""Backbones by name: whatever turns a batch of inputs into a batch of feature vectors.

A backbone is a `Backbone`: input normalisation, a body, and the number of features that the body gives. The name
can be one of `BACKBONES`, `wrn-DEPTH-WIDTH`, `efficientnet-lite0` (1, 2) or any timm model (`resnet50`; with
`:pretrained` behind it for its weights), `onnx:FILE.onnx`, or the body itself as an `nn.Module` of the user. A name
with `+WIDTH` behind it (`small-cnn+64`, `resnet101:pretrained+512`) is that body and then a dense layer of WIDTH with
ReLU: the bottleneck that adaptation methods are usually given on top of large networks.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from shiftcal.core.errors import (
    DataUnavailableError,
    InvalidInputError,
    MissingDependencyError,
    UnknownNameError,
    user_code,
)
from shiftcal.core.vision_guard import import_timm
from shiftcal.methods.networks import efficientnet_lite
from shiftcal.methods.networks.lite0_last_blocks import LITE0_LAST_BLOCKS, Lite0LastBlocks
from shiftcal.methods.networks.onnx_body import OnnxBody
from shiftcal.methods.networks.wide_resnet import parse_wide_resnet

InputShape = tuple[int, ...]
BackboneSpec = str | nn.Module

PRETRAINED_SUFFIX = ":pretrained"
ONNX_PREFIX = "onnx:"


class InputStatistics(NamedTuple):
    """Mean and standard deviation of the training inputs: per feature, or per channel of images."""

    mean: Tensor
    deviation: Tensor


class BodyWithDenseLayer(nn.Sequential):
    """A body and a dense layer with ReLU; of a class of its own, so that errors can name it."""

    def __init__(self, body: nn.Module, body_dim: int, width: int) -> None:
        super().__init__(body, nn.Flatten(), nn.Linear(body_dim, width), nn.ReLU())


class Backbone(nn.Module):
    """Normalised inputs (N, ...) to features (N, feature_dim)."""

    mean: Tensor
    deviation: Tensor

    def __init__(
        self,
        body: nn.Module,
        input_shape: InputShape,
        statistics: InputStatistics,
        *,
        dense_width: int | None = None,
        is_users: bool = False,
        channels_last: bool = False,
    ) -> None:
        super().__init__()
        self.body = body
        self._compiled: Callable[[Tensor], Tensor] | None = None
        self._is_users = is_users
        self.takes_images = len(input_shape) == 3
        self._channels_last = self.takes_images and channels_last
        self._input_shape = input_shape
        # One number per feature or channel, shaped to broadcast over a batch.
        broadcast = (1, -1) + (1,) * (len(input_shape) - 1)
        self.register_buffer("mean", statistics.mean.reshape(broadcast))
        self.register_buffer("deviation", statistics.deviation.reshape(broadcast))
        self.feature_dim = _probe_feature_dim(self, input_shape)
        if dense_width is not None:
            self.body = BodyWithDenseLayer(body, self.feature_dim, dense_width)
            self.feature_dim = dense_width

    def forward(self, inputs: Tensor) -> Tensor:
        """Features (N, feature_dim)."""
        normalised = (inputs - self.mean).div_(self.deviation)
        if self._channels_last and self._compiled is None:
            normalised = normalised.contiguous(memory_format=torch.channels_last)
        with user_code(f"the backbone {type(self.body).__name__}") if self._is_users else nullcontext():
            features: Tensor = (self._compiled or self.body)(normalised)
        return features.flatten(1)

    def compile_body(self) -> None:
        """Let the body from now on run as `torch.compile` makes it; copies of the backbone do without.

        Raises:
            InvalidInputError: there is no compiler here, or it can't take this body.
        """
        # Of a function: a compiled module would be a second one, with weights under names of its own.
        self._compiled = torch.compile(lambda normalised: self.body(normalised))
        try:
            with torch.no_grad():
                self(torch.zeros(2, *self._input_shape, device=self.mean.device))
        except Exception as error:  # whatever the compiler, or what it calls, may raise
            self._compiled = None
            lines = str(error).strip().splitlines() or [type(error).__name__]
            raise InvalidInputError(
                f"torch.compile can't compile {type(self.body).__name__} here: {lines[0]}. Leave out compile=true."
            ) from error

    def __getstate__(self) -> dict[str, Any]:
        # What was compiled belongs to this very body, and not to that of a copy.
        return {**super().__getstate__(), "_compiled": None}  # type: ignore[no-untyped-call]


@dataclass(frozen=True)
class BackboneInfo:
    """An entry of the registry."""

    build: Callable[[InputShape], nn.Module]
    kind: str
    """The inputs it takes: features, images or any."""
    doc: str


def _linear(input_shape: InputShape) -> nn.Module:
    del input_shape
    return nn.Flatten()


def _mlp(input_shape: InputShape) -> nn.Module:
    num_inputs = int(torch.Size(input_shape).numel())
    return nn.Sequential(nn.Flatten(), nn.Linear(num_inputs, 256), nn.ReLU())


class _AveragePoolTo(nn.AdaptiveAvgPool2d):
    """The same at no cost where maps have that size already, as those of 16 pixels: else a third of a step."""

    def forward(self, input: Tensor) -> Tensor:
        if input.shape[-2:] == (self.output_size, self.output_size):
            return input
        pooled = super().forward(input)
        if pooled.requires_grad and input.is_contiguous(memory_format=torch.channels_last):
            # What is flattened next gives its gradient channels first, of which this one takes ten times as long.
            pooled.register_hook(_channels_last)  # type: ignore[no-untyped-call]
        return pooled


def _channels_last(gradient: Tensor) -> Tensor:
    return gradient.contiguous(memory_format=torch.channels_last)


def _small_cnn(input_shape: InputShape) -> nn.Module:
    # Group normalisation: no statistics are shared between samples, so that the features of a sample depend
    # neither on its batch, nor on the number of processes, nor on target inputs passing through.
    return nn.Sequential(
        nn.Conv2d(input_shape[0], 32, 5, stride=2, padding=2),
        nn.GroupNorm(4, 32),
        nn.ReLU(),
        nn.Conv2d(32, 64, 3, stride=2, padding=1),
        nn.GroupNorm(4, 64),
        nn.ReLU(),
        _AveragePoolTo(4),
        nn.Flatten(),
        nn.Linear(64 * 16, 128),
        nn.ReLU(),
    )


BACKBONES: dict[str, BackboneInfo] = {
    "linear": BackboneInfo(_linear, "any", "the inputs themselves: the classifier is a logistic regression"),
    "mlp": BackboneInfo(_mlp, "any", "one hidden layer of 256; the default for features"),
    "small-cnn": BackboneInfo(_small_cnn, "images", "two convolutions and a dense layer; the default for images"),
    "wrn-28-2": BackboneInfo(parse_wide_resnet("wrn-28-2"), "images", "WideResNet-28-2; any wrn-DEPTH-WIDTH works"),
}


def build_backbone(spec: BackboneSpec, input_shape: InputShape, statistics: InputStatistics) -> Backbone:
    """A new backbone with fresh (or pretrained) weights.

    Args:
        spec: "auto", a name (see the module), or the user's own module, which is copied and not changed.
        input_shape: (D,) or (C, H, W).
        statistics: of the training inputs, for normalisation.

    Raises:
        UnknownNameError: no backbone of that name.
        InvalidInputError: the backbone can't take inputs of that shape, or the width behind its name is none.
        DataUnavailableError: pretrained weights can't be fetched.
    """
    if isinstance(spec, nn.Module):
        return Backbone(copy.deepcopy(spec), input_shape, statistics, is_users=True)
    name, dense_width = _name_and_width(str(resolve_backbone(spec, input_shape)))
    body = _body_by_name(name, input_shape)
    statistics = _pretrained_statistics(name, body, input_shape) or statistics
    return Backbone(
        body, input_shape, statistics, dense_width=dense_width, channels_last=_is_faster_with_channels_last(name)
    )


def _is_faster_with_channels_last(name: str) -> bool:
    """Whether on a CPU pictures with their channels last save the body time: ResNets of timm take half as long again.

    Steps of ours take a fifth less, with and without gradients.
    """
    own = name in BACKBONES or name.startswith(("wrn-", efficientnet_lite.PREFIX))
    return own or name.removesuffix(PRETRAINED_SUFFIX) == LITE0_LAST_BLOCKS


def default_image_size(spec: BackboneSpec) -> int:
    """Size that image files are brought to where the user names none: 32 for our small networks, else as they ask."""
    if isinstance(spec, nn.Module):
        return 32
    name, _ = _name_and_width(spec)
    if name.startswith(ONNX_PREFIX):
        return OnnxBody.read(Path(name.removeprefix(ONNX_PREFIX))).image_size
    lite_size = efficientnet_lite.IMAGE_SIZES.get(name.removesuffix(PRETRAINED_SUFFIX))
    if lite_size is not None:
        return lite_size
    return 32 if name == "auto" or name in BACKBONES or name.startswith("wrn-") else 224


def resolve_backbone(spec: BackboneSpec, input_shape: InputShape) -> BackboneSpec:
    """What "auto" stands for, given the inputs; any other spec as it is."""
    if isinstance(spec, nn.Module):
        return spec
    name, dense_width = _name_and_width(spec)
    if name == "auto":
        return _with_width("mlp" if len(input_shape) == 1 else "small-cnn", dense_width)
    return spec


def without_pretrained(spec: BackboneSpec) -> BackboneSpec:
    """The same form with fresh weights, for those who bring all weights themselves; nothing is fetched for it."""
    if isinstance(spec, nn.Module):
        return spec
    name, dense_width = _name_and_width(spec)
    return _with_width(name.removesuffix(PRETRAINED_SUFFIX), dense_width)


def brings_weights(spec: BackboneSpec) -> bool:
    """Whether the backbone knows anything before training: pretrained, of an ONNX file, or the user's own."""
    return (
        isinstance(spec, nn.Module)
        or spec.startswith(ONNX_PREFIX)
        or _name_and_width(spec)[0].endswith(PRETRAINED_SUFFIX)
    )


def can_be_trained(spec: BackboneSpec) -> bool:
    """Whether the weights of the backbone can change."""
    return isinstance(spec, nn.Module) or not spec.startswith(ONNX_PREFIX)


def without_width(spec: BackboneSpec) -> BackboneSpec:
    """The backbone without the dense layer behind it."""
    return spec if isinstance(spec, nn.Module) else _name_and_width(spec)[0]


def head_on(spec: BackboneSpec) -> str:
    """What is trained on the features of a backbone that is frozen: a dense layer, of the width that is asked for."""
    width = None if isinstance(spec, nn.Module) else _name_and_width(spec)[1]
    return "mlp" if width is None else _with_width("linear", width)


def _name_and_width(spec: str) -> tuple[str, int | None]:
    """The name, and the width of the dense layer behind it, if one is asked for."""
    if "+" not in spec:
        return spec, None
    if spec.endswith(".onnx"):  # a path may have any characters in it
        return spec, None
    match = re.fullmatch(rf"({ONNX_PREFIX}.+\.onnx|[^+]+)\+([1-9][0-9]{{0,5}})", spec)
    if match is None:
        raise InvalidInputError(
            f"expected a backbone as NAME or NAME+WIDTH with a WIDTH of 1 to 999999, such as small-cnn+64 or "
            f"resnet50{PRETRAINED_SUFFIX}+256; got {spec!r}"
        )
    return match[1], int(match[2])


def _with_width(name: str, dense_width: int | None) -> str:
    return name if dense_width is None else f"{name}+{dense_width}"


def _body_by_name(name: str, input_shape: InputShape) -> nn.Module:
    is_image = len(input_shape) == 3
    if name in BACKBONES:
        entry = BACKBONES[name]
        if entry.kind == "images" and not is_image:
            raise InvalidInputError(
                f"backbone {name!r} takes images (N, C, H, W), got features of shape {input_shape}; "
                "choose 'mlp', 'linear' or 'auto'"
            )
        return entry.build(input_shape)
    if name.startswith("wrn-"):
        return parse_wide_resnet(name)(input_shape)
    if name.startswith(ONNX_PREFIX):
        return OnnxBody.read(Path(name.removeprefix(ONNX_PREFIX)))
    if name.startswith(efficientnet_lite.PREFIX):
        return efficientnet_lite.EfficientNetLite(
            name.removesuffix(PRETRAINED_SUFFIX), pretrained=name.endswith(PRETRAINED_SUFFIX)
        )
    if name.removesuffix(PRETRAINED_SUFFIX) == LITE0_LAST_BLOCKS:
        return Lite0LastBlocks(input_shape, pretrained=name.endswith(PRETRAINED_SUFFIX))
    return _timm_body(name, input_shape)


def _timm_body(name: str, input_shape: InputShape) -> nn.Module:
    model_name = name.removesuffix(PRETRAINED_SUFFIX)
    try:
        timm = import_timm()
    except MissingDependencyError:
        raise UnknownNameError("backbone (timm's names need the extra 'vision')", name, BACKBONES) from None
    if not timm.is_model(model_name):
        close = timm.list_models(f"{model_name[:6]}*")[:20]
        raise UnknownNameError("backbone", name, [*BACKBONES, *close])
    if len(input_shape) != 3:
        raise InvalidInputError(f"backbone {name!r} takes images (N, C, H, W), got features of shape {input_shape}")
    pretrained = name.endswith(PRETRAINED_SUFFIX)
    try:
        model: nn.Module = timm.create_model(
            model_name, pretrained=pretrained, num_classes=0, in_chans=input_shape[0]
        )
    except (OSError, RuntimeError) as error:
        if not pretrained:
            raise
        raise DataUnavailableError(f"can't get the pretrained weights of {model_name!r}: {error}") from error
    return model


def _pretrained_statistics(name: str, body: nn.Module, input_shape: InputShape) -> InputStatistics | None:
    """Pretrained weights expect the normalisation that they were trained with."""
    if isinstance(body, OnnxBody):
        return InputStatistics(*(body.statistics or (torch.zeros(1), torch.ones(1))))
    if not name.endswith(PRETRAINED_SUFFIX):
        return None
    if isinstance(body, efficientnet_lite.EfficientNetLite):
        mean, deviation = torch.tensor([efficientnet_lite.MEAN]), torch.tensor([efficientnet_lite.DEVIATION])
        return InputStatistics(mean.repeat(input_shape[0]), deviation.repeat(input_shape[0]))
    settings: dict[str, tuple[float, ...]] = body.pretrained_cfg  # type: ignore[assignment]
    mean, deviation = torch.tensor(settings["mean"]), torch.tensor(settings["std"])
    if len(mean) != input_shape[0]:  # timm folds the weights of RGB into other numbers of channels
        mean, deviation = mean.mean().repeat(input_shape[0]), deviation.mean().repeat(input_shape[0])
    return InputStatistics(mean, deviation)


def _probe_feature_dim(backbone: Backbone, input_shape: InputShape) -> int:
    was_training = backbone.training
    backbone.eval()
    try:
        with torch.no_grad():
            features = backbone(torch.zeros(2, *input_shape))
    except Exception as error:  # a module of timm or of the user may raise anything
        raise InvalidInputError(f"the backbone can't take inputs of shape {input_shape}: {error}") from error
    finally:
        backbone.train(was_training)
    if len(features) != 2:
        raise InvalidInputError(f"expected the backbone to give a row for each input, got {len(features)} for 2")
    return int(features.shape[1])
