"""A backbone that is not trained: features are made of pictures once, and what is trained is a head on them.

Training sees features and nothing else: random views of pictures there are none, those of features take their place
(`shiftcal.data.views`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor, nn

from shiftcal.core.errors import InvalidInputError
from shiftcal.data.batches import ShiftProblem
from shiftcal.data.feature_store import Extractor, known_features, stored_features
from shiftcal.data.inputs import Inputs, SubsetInputs
from shiftcal.methods.networks.backbones import (
    ONNX_PREFIX,
    Backbone,
    BackboneSpec,
    InputStatistics,
    build_backbone,
    without_pretrained,
    without_width,
)
from shiftcal.methods.networks.onnx_body import OnnxBody
from shiftcal.training.fabric import prediction_device
from shiftcal.training.recipe import Recipe

Shape = tuple[int, ...]


class FrozenBackbone(Extractor):
    """A backbone with the weights that it came with.

    A backbone by name takes RGB, of which grey pictures become some; a module of the user's own is given pictures as
    they are, in [0, 1].
    """

    def __init__(self, backbone: Backbone, picture_shape: Shape, device: torch.device) -> None:
        # In this order of dimensions convolutions are faster on a CPU, and on a GPU in half precision.
        self.backbone = backbone.eval().requires_grad_(False).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.feature_dim = backbone.feature_dim
        self._shape = picture_shape
        self._device = device
        self.key = self._found_key()

    @classmethod
    def of(cls, recipe: Recipe, picture_shape: Shape) -> FrozenBackbone:
        """The backbone of a recipe, for pictures of that shape.

        Raises:
            InvalidInputError: the backbone can't take such inputs.
            DataUnavailableError: pretrained weights, or a file, can't be found.
        """
        if len(picture_shape) != 3:
            raise InvalidInputError(
                f"freeze_backbone is for images, got features of shape {picture_shape}; leave it out"
            )
        device = prediction_device(recipe.training.device)
        spec = without_width(recipe.backbone)
        # Weights by name are the same each time; a module or a file of the user's may have changed.
        is_named = isinstance(spec, str) and not spec.startswith(ONNX_PREFIX)
        return _named(spec, picture_shape, device) if is_named else cls._built(spec, picture_shape, device)

    @classmethod
    def _built(cls, spec: BackboneSpec, picture_shape: Shape, device: torch.device) -> FrozenBackbone:
        shape = _taken(spec, picture_shape)
        return cls(build_backbone(spec, shape, _as_they_are(shape)), shape, device)

    def as_plain(self) -> dict[str, Any]:
        """Weights and shape for a checkpoint."""
        weights = {name: value.cpu() for name, value in self.backbone.state_dict().items()}
        return {"weights": weights, "shape": list(self._shape), "key": self.key}

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any], recipe: Recipe) -> FrozenBackbone:
        """What `as_plain` was called on; all that it knows is in there, nothing is fetched."""
        spec, shape, weights = without_width(recipe.backbone), tuple(plain["shape"]), plain["weights"]
        if isinstance(spec, str) and spec.startswith(ONNX_PREFIX):
            body = OnnxBody(weights["body.file"].numpy().tobytes())
            statistics = InputStatistics(weights["mean"].flatten(), weights["deviation"].flatten())
            backbone = Backbone(body, shape, statistics)
        else:
            backbone = build_backbone(without_pretrained(spec), shape, _as_they_are(shape))
            backbone.load_state_dict(weights)
        return cls(backbone, shape, prediction_device(recipe.training.device))

    def freeze(self, problem: ShiftProblem, *, num_workers: int = 0) -> ShiftProblem:
        """The problem with features in place of pictures; they are made now, unless they were before."""
        source, target = problem.source, problem.target
        frozen = replace(source, inputs=self.stored(source.inputs, num_workers=num_workers))
        if target is None:
            return replace(problem, source=frozen)
        inputs = self.stored(target.inputs, num_workers=num_workers)
        return replace(problem, source=frozen, target=replace(target, inputs=inputs))

    def stored(self, pictures: Inputs, *, num_workers: int = 0) -> Inputs:
        """Features from the disk, made and kept there if they are not yet."""
        if isinstance(pictures, SubsetInputs):
            return SubsetInputs(self.stored(pictures.base, num_workers=num_workers), pictures.rows)
        return stored_features(pictures, self, num_workers=num_workers)

    def known(self, pictures: Inputs) -> Inputs:
        """Features from the disk where they are there, else made when they are asked for, and not kept."""
        if isinstance(pictures, SubsetInputs):
            return SubsetInputs(self.known(pictures.base), pictures.rows)
        return known_features(pictures, self)

    @torch.inference_mode()
    def extract(self, pictures: Tensor) -> Tensor:
        """See `Extractor.extract`.

        Raises:
            InvalidInputError: the backbone gives NaN or infinite values.
        """
        given = pictures.expand(-1, self._shape[0], -1, -1).to(self._device, memory_format=torch.channels_last)
        features: Tensor = self.backbone.to(self._device)(given).float().cpu()
        if not bool(torch.isfinite(features).all()):
            raise InvalidInputError("the frozen backbone gives NaN or infinite features; expected finite ones")
        return features

    def _found_key(self) -> str:
        """By weights and form, and by what comes out of two pictures: code that changes leaves both as they were."""
        form = [(name, type(module).__qualname__) for name, module in self.backbone.named_modules()]
        digest = hashlib.sha256(repr((self._shape, form)).encode())
        for name, value in self.backbone.state_dict().items():
            digest.update(name.encode())
            digest.update(value.cpu().contiguous().numpy().tobytes())
        probe = torch.linspace(0, 1, 2 * int(torch.Size(self._shape).numel())).reshape(2, *self._shape)
        features = self.extract(probe)
        # Few digits: the last ones depend on the number of threads.
        summary = (features.mean(), features.std(), features.max())
        digest.update(" ".join(f"{float(value):.3g}" for value in summary).encode())
        return digest.hexdigest()[:32]


@lru_cache(maxsize=2)
def _named(spec: str, picture_shape: Shape, device: torch.device) -> FrozenBackbone:
    return FrozenBackbone._built(spec, picture_shape, device)


def _taken(spec: BackboneSpec, picture_shape: Shape) -> Shape:
    """The shape of pictures that the backbone is given."""
    if isinstance(spec, nn.Module):
        return picture_shape
    if picture_shape[0] not in (1, 3):
        raise InvalidInputError(f"backbone {spec!r} takes grey or RGB images, got {picture_shape[0]} channels")
    return (3, *picture_shape[1:])


def _as_they_are(shape: Shape) -> InputStatistics:
    """A module of the user's own has learned from pictures in a normalisation that it knows itself."""
    return InputStatistics(torch.zeros(shape[0]), torch.ones(shape[0]))
