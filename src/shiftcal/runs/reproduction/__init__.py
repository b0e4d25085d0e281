"""Tables and figures of the paper, each by one command: `shiftcal reproduce NAME`."""

from __future__ import annotations

from shiftcal.core.errors import UnknownNameError
from shiftcal.runs.reproduction.adaptation import Adaptation, FewLabels
from shiftcal.runs.reproduction.attention import Attention
from shiftcal.runs.reproduction.base import Reproduction, Scale
from shiftcal.runs.reproduction.calibration import Calibration, CalibrationOfDigits
from shiftcal.runs.reproduction.curves import ShiftGap, TrainingCurves
from shiftcal.runs.reproduction.examples import Examples
from shiftcal.runs.reproduction.gaussian import Gaussian
from shiftcal.runs.reproduction.hard_examples import HardExamples
from shiftcal.runs.reproduction.human_agreement import HumanAgreement, RatioAgainstHumans
from shiftcal.runs.reproduction.record import reproduce

REPRODUCTIONS: dict[str, Reproduction] = {
    reproduction.name: reproduction
    for reproduction in (
        Calibration(),
        CalibrationOfDigits(),
        HumanAgreement(),
        RatioAgainstHumans(),
        TrainingCurves(),
        ShiftGap(),
        HardExamples(),
        Adaptation(),
        FewLabels(),
        Attention(),
        Examples(),
        Gaussian(),
    )
}


def find_reproduction(name: str) -> Reproduction:
    """By its name.

    Raises:
        UnknownNameError: there is none of that name.
    """
    if name not in REPRODUCTIONS:
        raise UnknownNameError("table or figure", name, REPRODUCTIONS)
    return REPRODUCTIONS[name]


__all__ = ["REPRODUCTIONS", "Reproduction", "Scale", "find_reproduction", "reproduce"]
