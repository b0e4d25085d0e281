from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from shiftcal.runs.predictions import Predictions
from shiftcal.runs.reporting import RunContents
from shiftcal.runs.reporting.figures.density_ratio import (
    HIGHEST,
    LOWEST,
    density_ratio_info,
    draw_density_ratio,
    draw_ratio_accuracy,
    ratio_accuracy_info,
)


def run_of(binary: Callable[..., Predictions], source: list[float], target: list[float]) -> RunContents:
    half = [0.5]
    return RunContents(
        "drl", {}, [], binary(half * len(source), ratio=source), binary(half * len(target), ratio=target)
    )


def test_bins_are_shared_and_of_equal_width_in_the_logarithm(binary: Callable[..., Predictions]) -> None:
    info = density_ratio_info(run_of(binary, [2.0, 4.0, 8.0], [0.25, 0.5]), num_bins=2)
    assert info is not None
    assert info.edges.tolist() == pytest.approx([0.25 / 1.05, np.sqrt(0.25 * 8), 8 * 1.05])
    assert info.source_share.tolist() == pytest.approx([0, 1])
    assert info.target_share.tolist() == pytest.approx([1, 0])
    assert (info.source_centre, info.target_centre) == pytest.approx((4.0, 0.375))


def test_no_shift_no_histogram(binary: Callable[..., Predictions]) -> None:
    assert density_ratio_info(run_of(binary, [1.0, 1.0], [1.0])) is None


def test_zero_and_huge_ratios_are_counted_at_the_ends(binary: Callable[..., Predictions]) -> None:
    info = density_ratio_info(run_of(binary, [1e30, 1.0], [0.0, 1.0]))
    assert info is not None
    assert (info.edges[0], info.edges[-1]) == pytest.approx((LOWEST / 1.05, HIGHEST * 1.05))
    assert (info.source_share[-1], info.target_share[0]) == (0.5, 0.5)
    draw_density_ratio(info).draw_without_rendering()


def test_a_constant_ratio_that_is_not_one_can_be_drawn(binary: Callable[..., Predictions]) -> None:
    info = density_ratio_info(run_of(binary, [0.7, 0.7], [0.7]))
    assert info is not None
    assert info.source_share.sum() == 1
    draw_density_ratio(info).draw_without_rendering()


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
