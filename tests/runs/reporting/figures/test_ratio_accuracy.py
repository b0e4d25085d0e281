from collections.abc import Callable

import numpy as np
import pytest

from shiftcal.runs.predictions import Predictions
from shiftcal.runs.reporting.figures.ratio_accuracy import draw_ratio_accuracy, ratio_accuracy_info


def test_quantile_bins_with_standard_errors(binary: Callable[..., Predictions]) -> None:
    # The ten least source-like are right five times, the others always.
    labels = [0, 1] * 5 + [0] * 10
    ratio = [0.5] * 9 + [0.6] + [2.0] * 9 + [4.0]
    info = ratio_accuracy_info(binary([0.7] * 10 + [0.9] * 10, labels, ratio), "target")
    assert info is not None
    assert info.num_inputs.tolist() == [10, 10]
    assert info.ratio.tolist() == [0.5, 2.0]
    assert info.accuracy.tolist() == [0.5, 1.0]
    assert info.standard_error.tolist() == pytest.approx([np.sqrt(0.025), 0.0])
    assert info.confidence.tolist() == pytest.approx([0.7, 0.9])


def test_equal_ratios_share_a_bin(binary: Callable[..., Predictions]) -> None:
    for ratio, counts in (([0.5] * 95 + [2.0] * 5, [95, 5]), ([0.5] * 5 + [2.0] * 95, [5, 95])):
        info = ratio_accuracy_info(binary([0.7] * 100, [0] * 100, ratio), "target")
        assert info is not None
        assert info.num_inputs.tolist() == counts


def test_few_inputs_are_one_bin(binary: Callable[..., Predictions]) -> None:
    info = ratio_accuracy_info(binary([0.7] * 3, [0] * 3, [1.0, 2.0, 3.0]), "source")
    assert info is not None
    assert info.num_inputs.tolist() == [3]
    draw_ratio_accuracy((info,)).draw_without_rendering()


def test_nothing_without_labels_or_differences(binary: Callable[..., Predictions]) -> None:
    assert ratio_accuracy_info(binary([0.7, 0.7], None, [1.0, 2.0]), "target") is None
    assert ratio_accuracy_info(binary([0.7, 0.7], [0, 0], [0.8, 0.8]), "target") is None


def test_large_data_is_binned(make_predictions: Callable[..., Predictions]) -> None:
    info = ratio_accuracy_info(make_predictions(100_000, 3), "target")
    assert info is not None
    assert info.num_inputs.tolist() == [10_000] * 10
