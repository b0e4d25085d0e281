from collections.abc import Callable

import pytest

from shiftcal.runs.predictions import Predictions
from shiftcal.runs.reporting.figures.drawing import RUN_COLOURS
from shiftcal.runs.reporting.figures.risk_coverage import draw_risk_coverage_of_runs, risk_coverage_info


def test_curve_by_hand(binary: Callable[..., Predictions]) -> None:
    info = risk_coverage_info(binary([0.9, 0.8, 0.7, 0.6], [0, 1, 0, 0]), "target")
    assert info is not None
    assert info.coverage.tolist() == [0.25, 0.5, 0.75, 1.0]
    assert info.risk.tolist() == pytest.approx([0, 1 / 2, 1 / 3, 1 / 4])
    assert info.area == pytest.approx((1 / 2 + 1 / 3 + 1 / 4) / 4)


def test_large_data_is_thinned_to_both_ends(make_predictions: Callable[..., Predictions]) -> None:
    predictions = make_predictions(100_000, 3)
    info = risk_coverage_info(predictions, "target")
    assert info is not None
    assert len(info.coverage) == 300
    assert info.coverage[-1] == 1
    assert info.risk[-1] == pytest.approx((predictions.predicted != predictions.labels).mean())


def test_without_labels_there_is_nothing(binary: Callable[..., Predictions]) -> None:
    assert risk_coverage_info(binary([0.9]), "target") is None


def test_a_run_that_is_left_out_does_not_change_the_others_colours(binary: Callable[..., Predictions]) -> None:
    info = risk_coverage_info(binary([0.9, 0.8], [0, 0]), "second")
    (line,) = draw_risk_coverage_of_runs([None, info]).axes[0].lines
    assert line.get_color() == RUN_COLOURS[1]
