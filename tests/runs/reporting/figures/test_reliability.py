from collections.abc import Callable

import pytest

from shiftcal.runs.predictions import Predictions
from shiftcal.runs.reporting.figures.reliability import draw_reliability, reliability_info


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
