"""A recipe: everything that decides about a fit but the data, from names and plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from torch import nn

from shiftcal import options
from shiftcal.calibrators import calibrator_class
from shiftcal.calibrators.base import Calibrator
from shiftcal.errors import InvalidInputError
from shiftcal.methods import method_class
from shiftcal.methods.base import Method
from shiftcal.models.backbones import BackboneSpec
from shiftcal.training.options import TrainingOptions


@dataclass(frozen=True)
class Recipe:
    """Everything that decides about a fit but the data."""

    method_name: str
    method: Method[Any]
    calibrator_name: str | None
    calibrator: Calibrator | None
    backbone: BackboneSpec
    training: TrainingOptions

    @classmethod
    def from_names(
        cls,
        method: str = "drl",
        calibrator: str | None = None,
        backbone: BackboneSpec = "auto",
        method_options: Mapping[str, Any] | None = None,
        training: Mapping[str, Any] | None = None,
    ) -> Recipe:
        """A recipe from names and plain values, each of them checked."""
        for what, name in (("method", method), ("calibrator", calibrator)):
            if not isinstance(name, str | None) or (what == "method" and name is None):
                raise InvalidInputError(f"{what} must be a name. Got {name!r} instead.")
        if not isinstance(backbone, (str, nn.Module)):
            raise InvalidInputError(f"backbone must be a name or an nn.Module. Got {backbone!r} instead.")
        return cls(
            method,
            options.build(method_class(method), method_options, owner=f"method {method!r}"),
            calibrator,
            None if calibrator is None else calibrator_class(calibrator)(),
            backbone,
            options.build(TrainingOptions, training, owner="training"),
        )

    def with_calibrator(self, name: str | None) -> Recipe:
        """The same with another calibrator."""
        return replace(self, calibrator_name=name, calibrator=None if name is None else calibrator_class(name)())

    def as_plain(self) -> dict[str, Any]:
        """Plain values from which `from_names` makes the same recipe (of a user's own module, its class's name)."""
        return {
            "method": self.method_name,
            "calibrator": self.calibrator_name,
            "backbone": self.backbone if isinstance(self.backbone, str) else type(self.backbone).__name__,
            "method_options": options.as_dict(self.method),
            "training": options.as_dict(self.training),
        }
