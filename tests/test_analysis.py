import numpy as np
import pytest
import torch
from torch import nn

import shiftcal
from shiftcal.analysis import (
    accuracy_by_ratio,
    attention_coverage,
    calibration_by_score,
    grad_cam,
    rank_correlation,
    shift_gap,
)
from shiftcal.core.errors import InvalidInputError


def test_calibration_within_bins_by_hand() -> None:
    """An edge belongs to the bin above it, the last one to the last bin, and empty bins are left out."""
    probabilities = np.array([[0.9, 0.1], [0.6, 0.4], [0.3, 0.7], [0.2, 0.8]])
    labels = np.array([0, 1, 1, 1])
    low, high = calibration_by_score(probabilities, labels, [0.0, 0.1, 0.8, 1.0], [0.0, 0.4, 0.8, 1.0])
    assert (low.low, low.num_inputs, low.accuracy) == (0.0, 2, 0.5)
    assert low.calibration_error == pytest.approx((0.1 + 0.6) / 2)
    assert (high.low, high.num_inputs, high.accuracy) == (0.8, 2, 1.0)
    assert high.confidence == pytest.approx(0.75)


def test_rank_correlation_and_its_interval() -> None:
    generator = np.random.default_rng(0)
    first = generator.normal(size=400)
    found = rank_correlation(first, first + generator.normal(size=400), num_resamples=200)
    assert found.low < found.value < found.high
    assert found.low > 0.5
    assert rank_correlation(first, np.exp(first), num_resamples=5).value == pytest.approx(1)
    assert rank_correlation(first, np.ones(400), num_resamples=5).value == 0


def test_bins_of_the_ratio_have_equally_many_rows_and_the_least_source_like_come_first() -> None:
    bins = accuracy_by_ratio([4, 1, 3, 2], {"one": [1, 0, 1, 0], "other": [0, 1, 1, 1]}, num_bins=2)
    assert [found.median_ratio for found in bins] == [1.5, 3.5]
    assert [dict(found.accuracy) for found in bins] == [{"one": 0.0, "other": 1.0}, {"one": 1.0, "other": 0.5}]


def test_the_gap_is_smaller_for_a_covariate_shift_than_for_labels_that_have_changed() -> None:
    generator = torch.Generator().manual_seed(0)
    source, target = torch.randn(800, 2, generator=generator), torch.randn(800, 2, generator=generator)
    target[:, 0] += 0.5
    same, turned = ((rows[:, 1] > 0).long() for rows in (target, -target))
    labels = (source[:, 1] > 0).long()
    gap, turned_gap = (shift_gap(source, labels, target, found) for found in (same, turned))
    assert gap is not None
    assert turned_gap is not None
    assert gap < 0.3 < 1 < turned_gap
    assert shift_gap(source[:4], labels[:4], target[:4], same[:4]) is None


def test_attention_behind_a_mean_over_cells_is_the_class_activation_map() -> None:
    """With maps A, their mean and a linear layer w, Grad-CAM is relu(w_class . A) up to scale (Zhou, CVPR 2016)."""
    torch.manual_seed(0)
    convolution, head = nn.Conv2d(3, 5, 3, padding=1).requires_grad_(False), nn.Linear(5, 4)
    network = nn.Sequential(convolution, nn.ReLU(inplace=True), nn.AdaptiveAvgPool2d(1), nn.Flatten(), head)
    inputs, classes = torch.randn(3, 3, 8, 8), torch.tensor([2, 0, 3])
    found = grad_cam(network, inputs, classes, layer=network[1])
    expected = torch.einsum("nk,nkhw->nhw", head.weight[classes], network[:2](inputs)).relu().detach()
    torch.testing.assert_close(found, expected / expected.amax(dim=(1, 2), keepdim=True))
    # By itself it takes the last layer with weights.
    torch.testing.assert_close(
        grad_cam(network, inputs, classes), grad_cam(network, inputs, classes, layer=convolution)
    )


def test_attention_needs_maps() -> None:
    with pytest.raises(InvalidInputError, match="no layer that gives maps"):
        grad_cam(nn.Sequential(nn.Flatten(), nn.Linear(12, 2)), torch.zeros(1, 3, 2, 2), torch.tensor([0]))


def test_coverage_by_hand() -> None:
    attention = np.array([[1.0, 0.4], [0.6, 0.0]])
    found = attention_coverage(attention, [[1, 1], [0, 0]])
    assert found.covered == 0.5
    assert found.on_object == pytest.approx(0.7)
    assert attention_coverage(attention, np.zeros((2, 2))).covered == 0
    with pytest.raises(InvalidInputError, match="one shape"):
        attention_coverage(attention, [1, 0])


def test_scores_of_other_rows_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="each of 2 rows"):
        rank_correlation([1, 2], [1, 2, 3])


def test_it_is_found_at_the_top() -> None:
    assert shiftcal.analysis.shift_gap is shift_gap
