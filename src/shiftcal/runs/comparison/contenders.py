"""What is compared: a method, perhaps with a calibrator behind it, and how that is written."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from shiftcal.calibrators import calibrator_class
from shiftcal.core.errors import InvalidInputError
from shiftcal.training.compositions import COMPOSITIONS, resolved_names

NETWORK_KEYS = ("backbone", "freeze_backbone", "image_size")
"""What a contender may have other than the rest of a comparison, beside options."""
_NAME_AND_SETTINGS = r"([^\[\]+]+)(?:\[([^\[\]]*)\])?"


@dataclass(frozen=True)
class Contender:
    """A row of the comparison: `METHOD` or `METHOD+CALIBRATOR`, each perhaps with options `[key=value;key=value]`."""

    method: str
    calibrator: str | None = None
    settings: tuple[str, ...] = ()
    """Of the method, of training or of the network (`NETWORK_KEYS`)."""
    calibrator_settings: tuple[str, ...] = ()

    @property
    def trained(self) -> Contender:
        """The contender without its calibrator: what is trained."""
        return replace(self, calibrator=None, calibrator_settings=())

    @property
    def of_network(self) -> tuple[str, ...]:
        """Those of its settings that say which network learns, and on pictures of which size."""
        return tuple(setting for setting in self.settings if setting.partition("=")[0] in NETWORK_KEYS)

    @property
    def options(self) -> tuple[str, ...]:
        """Its other settings."""
        return tuple(setting for setting in self.settings if setting not in self.of_network)

    @property
    def name(self) -> str:
        """As it is written on the command line."""
        name = self.method + _in_brackets(self.settings)
        return name + (f"+{self.calibrator}{_in_brackets(self.calibrator_settings)}" if self.calibrator else "")


def _in_brackets(settings: tuple[str, ...]) -> str:
    return f"[{';'.join(settings)}]" if settings else ""


def parse_contenders(text: str) -> tuple[Contender, ...]:
    """Contenders from a list with commas.

    Raises:
        InvalidInputError: the list is empty or an entry is malformed.
        UnknownNameError: no such method or calibrator.
    """
    contenders = []
    for entry in filter(None, (part.strip() for part in text.split(","))):
        match = re.fullmatch(rf"{_NAME_AND_SETTINGS}(?:\+{_NAME_AND_SETTINGS})?", entry)
        if match is None:
            raise InvalidInputError(
                f"expected METHOD[key=value;...]+CALIBRATOR[key=value;...], or less of it, got {entry!r}"
            )
        contenders.append(_contender(*match.groups()))
    if not contenders:
        raise InvalidInputError("expected at least one method to compare, got none")
    return tuple(dict.fromkeys(contenders))


def _contender(
    method: str, settings: str | None, calibrator: str | None, calibrator_settings: str | None
) -> Contender:
    further: tuple[str, ...] = ()
    if method in COMPOSITIONS:
        method, calibrator, own = resolved_names(method, calibrator, None)
        further = tuple(f"{name}={str(value).lower()}" for name, value in own.items())
    if calibrator is not None:
        calibrator_class(calibrator)
    return Contender(method, calibrator, _split(settings), (*further, *_split(calibrator_settings)))


def _split(settings: str | None) -> tuple[str, ...]:
    return tuple(filter(None, (settings or "").split(";")))
