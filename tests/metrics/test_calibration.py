from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from shiftcal.core.errors import InvalidInputError
from shiftcal.metrics import (
    adaptive_calibration_error,
    classwise_calibration_error,
    expected_calibration_error,
    reliability_curve,
)

Predictions = tuple[NDArray[np.float64], NDArray[np.int64]]
Pairs = list[tuple[float, bool]]
NUM_BINS = [1, 2, 10, 15, 37]


def top_pairs(probabilities: NDArray[np.float64], labels: NDArray[np.int64]) -> Pairs:
    rows = zip(probabilities.tolist(), labels.tolist(), strict=True)
    return [(max(row), row.index(max(row)) == label) for row, label in rows]


def bins_by_loops(pairs: Pairs, num_bins: int) -> list[Pairs]:
    bins: list[Pairs] = [[] for _ in range(num_bins)]
    edges = [float(Fraction(index + 1, num_bins)) for index in range(num_bins)]
    for value, hit in pairs:
        index = 0
        while index < num_bins - 1 and value > edges[index]:
            index += 1
        bins[index].append((value, hit))
    return bins


def gap_by_loops(bins: list[Pairs]) -> float:
    total = sum(len(members) for members in bins)
    gap = 0.0
    for members in bins:
        if members:
            confidence = sum(value for value, _ in members) / len(members)
            right = sum(hit for _, hit in members) / len(members)
            gap += len(members) / total * abs(right - confidence)
    return gap


def equal_mass_gap_by_loops(pairs: Pairs, num_bins: int) -> float:
    groups: dict[float, list[bool]] = {}
    for value, hit in pairs:
        groups.setdefault(value, []).append(hit)
    expected_hits = [
        (value, sum(hits) / len(hits)) for value, hits in sorted(groups.items()) for _ in range(len(hits))
    ]
    runs = np.array_split(np.array(expected_hits), num_bins)
    return float(sum(abs(sum(run[:, 1]) - sum(run[:, 0])) for run in runs)) / len(pairs)


def test_expected_and_adaptive_calibration_error_equal_plain_loops(predictions: Predictions) -> None:
    pairs = top_pairs(*predictions)
    for num_bins in NUM_BINS:
        expected = gap_by_loops(bins_by_loops(pairs, num_bins))
        assert expected_calibration_error(*predictions, num_bins) == pytest.approx(expected, abs=1e-12)
        expected = equal_mass_gap_by_loops(pairs, num_bins)
        assert adaptive_calibration_error(*predictions, num_bins) == pytest.approx(expected, abs=1e-12)


def test_classwise_calibration_error_equals_plain_loops(predictions: Predictions) -> None:
    probabilities, labels = predictions
    by_class = [
        list(zip(probabilities[:, index].tolist(), (labels == index).tolist(), strict=True))
        for index in range(probabilities.shape[1])
    ]
    for num_bins in NUM_BINS:
        gaps = [gap_by_loops(bins_by_loops(pairs, num_bins)) for pairs in by_class]
        expected = sum(gaps) / len(gaps)
        assert classwise_calibration_error(probabilities, labels, num_bins) == pytest.approx(expected, abs=1e-12)


def test_reliability_curve_equals_plain_loops(predictions: Predictions) -> None:
    pairs = top_pairs(*predictions)
    for num_bins in NUM_BINS:
        curve = reliability_curve(*predictions, num_bins)
        bins = bins_by_loops(pairs, num_bins)
        assert curve.count.tolist() == [len(members) for members in bins]
        for index, members in enumerate(bins):
            means = np.mean(members, axis=0) if members else np.full(2, np.nan)
            np.testing.assert_allclose([curve.confidence[index], curve.accuracy[index]], means, atol=1e-13)


def test_the_curve_gives_the_error(predictions: Predictions) -> None:
    curve = reliability_curve(*predictions)
    gap = np.nansum(curve.count * np.abs(curve.accuracy - curve.confidence)) / curve.count.sum()
    assert gap == pytest.approx(expected_calibration_error(*predictions), abs=1e-13)


def test_confidence_one_and_the_edges_land_in_the_documented_bins() -> None:
    probabilities = np.array([[1.0, 0.0, 0.0], [0.6, 0.2, 0.2], [0.4, 0.4, 0.2]])
    curve = reliability_curve(probabilities, np.array([0, 0, 0]), num_bins=5)
    assert curve.count.tolist() == [0, 1, 1, 0, 1]


def test_class_probabilities_zero_and_one_are_not_lost() -> None:
    # Always wrong with certainty: the bins of 0 and of 1 both have gap 1, for both classes.
    assert classwise_calibration_error(np.eye(2), np.array([1, 0])) == 1
    assert expected_calibration_error(np.eye(2), np.array([1, 0])) == 1
    assert expected_calibration_error(np.eye(2), np.array([0, 1])) == 0


def test_many_samples_keep_their_digits() -> None:
    # A plain running sum would be off by 7e-12.
    probabilities = np.tile([0.95, 0.05], (400_000, 1))
    labels = np.arange(400_000) % 2
    assert expected_calibration_error(probabilities, labels) == pytest.approx(0.45, abs=1e-12)
    assert adaptive_calibration_error(probabilities, labels) == pytest.approx(0.45, abs=1e-12)


def test_equal_mass_bins_do_not_depend_on_the_order_of_ties() -> None:
    probabilities = np.tile([0.75, 0.25], (40, 1))
    labels = np.repeat([0, 1], 20)
    assert adaptive_calibration_error(probabilities, labels) == pytest.approx(0.25, abs=1e-14)
    assert adaptive_calibration_error(probabilities, labels[::-1].copy()) == pytest.approx(0.25, abs=1e-14)


@pytest.mark.parametrize(
    "metric",
    [expected_calibration_error, adaptive_calibration_error, classwise_calibration_error, reliability_curve],
)
def test_every_binned_metric_checks_its_bins(metric: object) -> None:
    with pytest.raises(InvalidInputError, match="num_bins must be"):
        metric(np.eye(2), np.array([0, 1]), num_bins=0)  # type: ignore[operator]
