"""Post-hoc calibrators: one file each, listed here and nowhere else."""

from __future__ import annotations

from shiftcal.calibrators.base import Calibrator
from shiftcal.calibrators.cpcs import Cpcs
from shiftcal.calibrators.histogram import Histogram
from shiftcal.calibrators.importance_weighted_temperature import ImportanceWeightedTemperature
from shiftcal.calibrators.isotonic import Isotonic
from shiftcal.calibrators.matrix import Matrix
from shiftcal.calibrators.perturbed_temperature import PerturbedTemperature
from shiftcal.calibrators.target_scaling import TargetScaling
from shiftcal.calibrators.temperature import Temperature
from shiftcal.calibrators.transcal import TransCal
from shiftcal.calibrators.vector import Vector
from shiftcal.core.errors import UnknownNameError

CALIBRATORS: dict[str, type[Calibrator]] = {
    "temperature": Temperature,
    "vector": Vector,
    "matrix": Matrix,
    "histogram": Histogram,
    "isotonic": Isotonic,
    "importance-weighted-temperature": ImportanceWeightedTemperature,
    "cpcs": Cpcs,
    "transcal": TransCal,
    "perturbed-temperature": PerturbedTemperature,
    "target-scaling": TargetScaling,
}


def calibrator_class(name: str) -> type[Calibrator]:
    """The calibrator of that name.

    Raises:
        UnknownNameError: there is none; with the closest that there is.
    """
    if name not in CALIBRATORS:
        raise UnknownNameError("calibrator", name, CALIBRATORS)
    return CALIBRATORS[name]
