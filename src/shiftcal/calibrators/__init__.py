"""Post-hoc calibrators: one file each, listed here and nowhere else."""

from __future__ import annotations

from shiftcal.calibrators.base import Calibrator
from shiftcal.calibrators.temperature import Temperature
from shiftcal.errors import UnknownNameError

CALIBRATORS: dict[str, type[Calibrator]] = {
    "temperature": Temperature,
}


def calibrator_class(name: str) -> type[Calibrator]:
    """The calibrator of that name.

    Raises:
        UnknownNameError: there is none; with the closest that there is.
    """
    if name not in CALIBRATORS:
        raise UnknownNameError("calibrator", name, CALIBRATORS)
    return CALIBRATORS[name]
