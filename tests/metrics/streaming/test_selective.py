from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from shiftcal.core.errors import InvalidInputError
from shiftcal.metrics import (
    StreamingErrorDetectionAuroc,
    StreamingRiskCoverageCurve,
    error_detection_auroc,
    risk_coverage_curve,
)

Predictions = tuple[NDArray[np.float64], NDArray[np.int64]]
NUM_CELLS = [1, 10, 1000, 10_000]


def test_area_is_within_its_bound_and_points_are_points_of_the_exact_curve(predictions: Predictions) -> None:
    exact = risk_coverage_curve(*predictions)
    for num_cells in NUM_CELLS:
        metric = StreamingRiskCoverageCurve(num_cells=num_cells).update(*predictions)
        curve = metric.compute()
        assert abs(curve.area - exact.area) <= metric.error_bound() + 1e-12
        index = np.searchsorted(exact.coverage, curve.coverage)
        np.testing.assert_array_equal(exact.coverage[index], curve.coverage)
        np.testing.assert_array_equal(exact.risk[index], curve.risk)


def test_auroc_is_within_its_bound(predictions: Predictions) -> None:
    exact = error_detection_auroc(*predictions)
    for num_cells in NUM_CELLS:
        metric = StreamingErrorDetectionAuroc(num_cells=num_cells).update(*predictions)
        if math.isnan(exact):
            assert math.isnan(metric.compute())
            assert math.isnan(metric.error_bound())
        else:
            assert abs(metric.compute() - exact) <= metric.error_bound() + 1e-12


def test_many_samples_are_close_to_exact_also_when_saturated() -> None:
    rng = np.random.default_rng(0)
    logits = np.abs(rng.normal(size=300_000)) * 12
    confidence = 1 / (1 + np.exp(-logits))
    probabilities = np.stack([confidence, 1 - confidence], axis=1)
    labels = (rng.uniform(size=300_000) > 1 / (1 + np.exp(-logits / 6))).astype(int)
    assert (confidence > 1 - 1e-4).mean() > 0.4
    curve = StreamingRiskCoverageCurve().update(probabilities, labels)
    auroc = StreamingErrorDetectionAuroc().update(probabilities, labels)
    assert curve.error_bound() < 2e-3
    assert auroc.error_bound() < 2e-3
    assert curve.compute().area == pytest.approx(risk_coverage_curve(probabilities, labels).area, abs=1e-4)
    assert auroc.compute() == pytest.approx(error_detection_auroc(probabilities, labels), abs=1e-4)


@pytest.mark.parametrize("metric", [StreamingRiskCoverageCurve(), StreamingErrorDetectionAuroc()])
def test_bound_before_update_is_refused(
    metric: StreamingRiskCoverageCurve | StreamingErrorDetectionAuroc,
) -> None:
    with pytest.raises(InvalidInputError, match="has seen no samples"):
        metric.error_bound()
