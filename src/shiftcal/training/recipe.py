"""A recipe: everything that decides about a fit but the data, from names and plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from torch import nn

from shiftcal.calibrators import calibrator_class
from shiftcal.calibrators.base import Calibrator
from shiftcal.core import options
from shiftcal.core.errors import InvalidInputError, shown
from shiftcal.methods import method_class
from shiftcal.methods.base import Method
from shiftcal.methods.networks.backbones import BackboneSpec, brings_weights, can_be_trained, head_on
from shiftcal.training.compositions import resolved_names
from shiftcal.training.options import WITHOUT_INFLUENCE, TrainingOptions

# Keys of a plain recipe whose values are options by name.
_OPTION_KEYS = ("method_options", "calibrator_options", "training")
_WITHOUT_INFLUENCE = {f"training.{name}" for name in WITHOUT_INFLUENCE}


@dataclass(frozen=True)
class Recipe:
    """Everything that decides about a fit but the data."""

    method_name: str
    method: Method[Any]
    calibrator_name: str | None
    calibrator: Calibrator | None
    backbone: BackboneSpec
    training: TrainingOptions
    freeze_backbone: bool = False
    """Whether the backbone keeps its weights, and a head on its features is all that is trained."""

    @classmethod
    def from_names(
        cls,
        method: str = "calibrated",
        calibrator: str | None = None,
        backbone: BackboneSpec = "auto",
        method_options: Mapping[str, Any] | None = None,
        calibrator_options: Mapping[str, Any] | None = None,
        training: Mapping[str, Any] | None = None,
        freeze_backbone: bool = False,
    ) -> Recipe:
        """A recipe from names and plain values, each of them checked; a composition may stand for the method."""
        for what, name in (("method", method), ("calibrator", calibrator)):
            if not isinstance(name, str | None) or (what == "method" and name is None):
                raise InvalidInputError(f"{what} must be a name. Got {shown(name)} instead.")
        if not isinstance(backbone, (str, nn.Module)):
            raise InvalidInputError(f"backbone must be a name or an nn.Module. Got {shown(backbone)} instead.")
        _check_freezing(backbone, freeze_backbone)
        method, calibrator, calibrator_options = resolved_names(method, calibrator, calibrator_options)
        return cls(
            method,
            options.build(method_class(method), method_options, owner=f"method {method!r}"),
            calibrator,
            _build_calibrator(calibrator, calibrator_options),
            backbone,
            options.build(TrainingOptions, training, owner="training"),
            freeze_backbone,
        )

    def with_calibrator(self, name: str | None, calibrator_options: Mapping[str, Any] | None = None) -> Recipe:
        """The same with another calibrator."""
        return replace(self, calibrator_name=name, calibrator=_build_calibrator(name, calibrator_options))

    @property
    def trained_backbone(self) -> BackboneSpec:
        """What of the backbone is trained: all of it, or the head on a frozen one."""
        return head_on(self.backbone) if self.freeze_backbone else self.backbone

    @property
    def parts(self) -> str:
        """Method and calibrator, as `compare` writes them."""
        return self.method_name + ("" if self.calibrator_name is None else f"+{self.calibrator_name}")

    def as_plain(self) -> dict[str, Any]:
        """Plain values from which `from_names` makes the same recipe (of a user's own module, its class's name)."""
        return {
            "method": self.method_name,
            "calibrator": self.calibrator_name,
            "backbone": self.backbone if isinstance(self.backbone, str) else type(self.backbone).__name__,
            "method_options": options.as_dict(self.method),
            "calibrator_options": {} if self.calibrator is None else options.as_dict(self.calibrator),
            "training": options.as_dict(self.training),
            "freeze_backbone": self.freeze_backbone,
        }


def decisive(plain: Mapping[str, Any]) -> dict[str, Any]:
    """What decides about the result, of a plain recipe and what may stand beside it: flat, options as `key.name`."""
    flat = {key: value for key, value in plain.items() if key not in _OPTION_KEYS}
    for key in _OPTION_KEYS:
        flat |= {f"{key}.{name}": value for name, value in plain.get(key, {}).items()}
    # Files know lists alone.
    plain_values = {key: list(value) if isinstance(value, tuple) else value for key, value in flat.items()}
    return {key: value for key, value in plain_values.items() if key not in _WITHOUT_INFLUENCE}


def _check_freezing(backbone: BackboneSpec, freeze_backbone: bool) -> None:
    if not isinstance(freeze_backbone, bool):
        raise InvalidInputError(f"freeze_backbone must be true or false. Got {shown(freeze_backbone)} instead.")
    if freeze_backbone and not brings_weights(backbone):
        raise InvalidInputError(
            f"a frozen backbone needs weights to begin with: expected efficientnet-lite0:pretrained, another "
            f"NAME:pretrained, onnx:FILE.onnx or a module of your own, got {shown(backbone)}"
        )
    if not freeze_backbone and not can_be_trained(backbone):
        raise InvalidInputError(f"the backbone {shown(backbone)} can't be trained; freeze it (--freeze-backbone)")


def _build_calibrator(name: str | None, calibrator_options: Mapping[str, Any] | None) -> Calibrator | None:
    if name is not None:
        return options.build(calibrator_class(name), calibrator_options, owner=f"calibrator {name!r}")
    if calibrator_options:
        raise InvalidInputError(f"expected a calibrator for calibrator_options {shown(calibrator_options)}, got none")
    return None
