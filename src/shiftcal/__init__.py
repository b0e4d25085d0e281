"""Classifiers whose probabilities can be trusted on data unlike their training data."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shiftcal import analysis
    from shiftcal.faces.arrow_scorer import arrow_scorer
    from shiftcal.faces.calibration.calibrator import ShiftCalibrator
    from shiftcal.faces.classifier import AdaptiveClassifier
    from shiftcal.faces.monitoring.monitor import Monitor

__all__ = ["AdaptiveClassifier", "Monitor", "ShiftCalibrator", "__version__", "analysis", "arrow_scorer"]

__version__ = version("shiftcal")


def __getattr__(name: str) -> Any:
    # Imported on first use: `import shiftcal.metrics` need not wait for the training engine.
    if name == "AdaptiveClassifier":
        from shiftcal.faces.classifier import AdaptiveClassifier

        return AdaptiveClassifier
    if name == "ShiftCalibrator":
        from shiftcal.faces.calibration.calibrator import ShiftCalibrator

        return ShiftCalibrator
    if name == "analysis":
        return import_module("shiftcal.analysis")
    if name == "arrow_scorer":
        from shiftcal.faces.arrow_scorer import arrow_scorer

        return arrow_scorer
    if name == "Monitor":
        from shiftcal.faces.monitoring.monitor import Monitor

        return Monitor
    raise AttributeError(f"module 'shiftcal' has no attribute {name!r}")
