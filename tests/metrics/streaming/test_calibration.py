from __future__ import annotations

import itertools

import numpy as np
import pytest
from numpy.typing import NDArray

from shiftcal.core.errors import InvalidInputError
from shiftcal.metrics import (
    StreamingAdaptiveCalibrationError,
    StreamingExpectedCalibrationError,
    StreamingReliabilityCurve,
    adaptive_calibration_error,
    expected_calibration_error,
)

Predictions = tuple[NDArray[np.float64], NDArray[np.int64]]


def test_many_samples_keep_their_digits() -> None:
    # A plain running sum would be off by 7e-12.
    probabilities = np.tile([0.95, 0.05], (400_000, 1))
    labels = np.arange(400_000) % 2
    metric = StreamingExpectedCalibrationError()
    for _ in range(5):
        metric.update(probabilities, labels)
    assert metric.compute() == pytest.approx(0.45, abs=1e-12)


def test_number_of_bins_is_used(predictions: Predictions) -> None:
    for num_bins in (1, 10, 15):
        value = StreamingExpectedCalibrationError(num_bins=num_bins).update(*predictions).compute()
        assert value == expected_calibration_error(*predictions, num_bins)
        assert StreamingReliabilityCurve(num_bins=num_bins).update(*predictions).compute().count.shape == (num_bins,)


def test_adaptive_error_is_within_its_bound(predictions: Predictions) -> None:
    for num_bins, num_cells in itertools.product((1, 2, 15), (1, 10, 1000, 10_000)):
        metric = StreamingAdaptiveCalibrationError(num_bins=num_bins, num_cells=num_cells).update(*predictions)
        exact = adaptive_calibration_error(*predictions, num_bins)
        assert abs(metric.compute() - exact) <= metric.error_bound() + 1e-12


def test_adaptive_error_of_evenly_spread_samples() -> None:
    rng = np.random.default_rng(0)
    confidence = rng.uniform(0.5, 1, 400_000)
    labels = (rng.uniform(size=400_000) > confidence**2).astype(int)
    probabilities = np.stack([confidence, 1 - confidence], axis=1)
    metric = StreamingAdaptiveCalibrationError().update(probabilities, labels)
    # Half of the cells are in use: twice the documented bound for all of them.
    assert metric.error_bound() < 2 * 14 / 10_000
    assert metric.compute() == pytest.approx(adaptive_calibration_error(probabilities, labels), abs=1e-4)


@pytest.mark.parametrize("metric", [StreamingExpectedCalibrationError, StreamingAdaptiveCalibrationError])
def test_wrong_number_of_bins_is_refused(metric: type[StreamingExpectedCalibrationError]) -> None:
    with pytest.raises(InvalidInputError, match=r"num_bins must be an integer of at least 1\. Got 0"):
        metric(num_bins=0)
