from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from shiftcal.runs.predictions import Predictions
from shiftcal.runs.reporting import RunContents
from shiftcal.runs.reporting.figures.calibration import (
    confidence_info,
    draw_confidence,
    draw_reliability,
    draw_risk_coverage_of_runs,
    reliability_info,
    risk_coverage_info,
    shares,
)
from shiftcal.runs.reporting.figures.drawing import RUN_COLOURS


def test_shares_and_means(binary: Callable[..., Predictions]) -> None:
    run = RunContents("drl", {}, [], binary([1.0, 0.9]), binary([0.65, 0.3, 0.3, 0.1]))
    info = confidence_info(run, num_bins=5)
    assert info.source_share.tolist() == [0, 0, 0, 0, 1]
    assert info.target_share.tolist() == [0, 0, 0, 0.75, 0.25]
    assert (info.source_centre, info.target_centre) == pytest.approx((0.95, 0.7375))


def test_values_beyond_the_edges_are_counted() -> None:
    assert shares(np.array([-1.0, 0.2, 9.0]), np.array([0.0, 0.5, 1.0])).tolist() == pytest.approx([2 / 3, 1 / 3])


def test_both_domains_are_named(binary: Callable[..., Predictions]) -> None:
    figure = draw_confidence(confidence_info(RunContents("drl", {}, [], binary([0.9]), binary([0.6]))))
    texts = [text.get_text() for text in figure.legends[0].get_texts()]
    assert texts == ["source, mean 0.90", "target, mean 0.60"]


def test_only_filled_bins_are_kept(binary: Callable[..., Predictions]) -> None:
    # Confidences 0.62, 0.64 lie in the bin (9/15, 10/15], 0.9 and 0.92 in (13/15, 14/15].
    info = reliability_info(binary([0.62, 0.36, 0.9, 0.92], [0, 0, 0, 0]), "target")
    assert info is not None
    assert info.left.tolist() == pytest.approx([9 / 15, 13 / 15])
    assert info.width.tolist() == pytest.approx([1 / 15, 1 / 15])
    assert info.confidence.tolist() == pytest.approx([0.63, 0.91])
    assert info.accuracy.tolist() == pytest.approx([0.5, 1.0])
    assert info.num_inputs.tolist() == [2, 2]
    assert info.calibration_error == pytest.approx(0.5 * 0.13 + 0.5 * 0.09)


def test_without_labels_there_is_nothing(binary: Callable[..., Predictions]) -> None:
    assert reliability_info(binary([0.9]), "target") is None


def test_drawing_has_bars_and_counts(binary: Callable[..., Predictions]) -> None:
    info = reliability_info(binary([0.9, 0.6], [0, 1]), "source")
    assert info is not None
    upper, lower = draw_reliability(info).axes
    assert [bar.get_path().get_extents(bar.get_patch_transform()).height for bar in lower.patches] == [1, 1]
    assert len(upper.patches) == 4


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


def test_without_labels_there_is_no_curve_of_risk(binary: Callable[..., Predictions]) -> None:
    assert risk_coverage_info(binary([0.9]), "target") is None


def test_a_run_that_is_left_out_does_not_change_the_others_colours(binary: Callable[..., Predictions]) -> None:
    info = risk_coverage_info(binary([0.9, 0.8], [0, 0]), "second")
    (line,) = draw_risk_coverage_of_runs([None, info]).axes[0].lines
    assert line.get_color() == RUN_COLOURS[1]
