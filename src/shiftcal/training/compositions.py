"""Named compositions: a method and what stands behind it, for users who want a good whole without choosing parts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Composition:
    """A method with a calibrator."""

    method: str
    calibrator: str
    doc: str
    calibrator_options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def parts(self) -> str:
        """As `compare` writes it."""
        settings = ";".join(f"{name}={str(value).lower()}" for name, value in self.calibrator_options.items())
        return f"{self.method}+{self.calibrator}" + (f"[{settings}]" if settings else "")


COMPOSITIONS: dict[str, Composition] = {
    "calibrated": Composition(
        "source-only", "target-scaling", "trained on the source, its confidence right on the target; the default"
    ),
    "adapted": Composition("drst", "target-scaling", "adapted to the target by self-training, its confidence right"),
    "few-labels": Composition(
        "drssl", "target-scaling", "few labels on the source, confidence right on both domains", {"keep_source": True}
    ),
}


def resolved_names(
    method: str, calibrator: str | None, calibrator_options: Mapping[str, Any] | None
) -> tuple[str, str | None, dict[str, Any]]:
    """Method, calibrator and its options, with a composition in place of the method resolved.

    A calibrator that is given replaces that of the composition.
    """
    options = dict(calibrator_options or {})
    if method not in COMPOSITIONS:
        return method, calibrator, options
    whole = COMPOSITIONS[method]
    if calibrator is not None:
        return whole.method, calibrator, options
    return whole.method, whole.calibrator, {**whole.calibrator_options, **options}
