"""The report of a fitted calibration."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from shiftcal.faces.calibration.fitted_calibration import FittedCalibration
from shiftcal.runs.predictions import Predictions
from shiftcal.runs.reporting.calibration_page import CalibrationContents, write_calibration_page


def write_calibration_report(
    fitted: FittedCalibration, path: Path, *, title: str = "What to expect on the target"
) -> None:
    """Write a page that needs nothing but a browser.

    Raises:
        OutputError: it can't be written.
    """
    source = torch.softmax(fitted.source.logits, dim=-1).numpy()
    contents = CalibrationContents(
        verdict=fitted.verdict(),
        estimate=fitted.target_estimate(),
        set_coverage=fitted.set_coverage(0.9),
        source=Predictions(
            np.arange(len(source)).astype(str),
            source,
            np.ones(len(source)),
            fitted.classes,
            fitted.source_labels.numpy(),
        ),
        given=fitted.shown_given,
        calibrated=fitted.shown.probabilities,
    )
    write_calibration_page(contents, path, title)
