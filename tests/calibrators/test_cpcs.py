from collections.abc import Callable

import numpy as np
import pytest
import torch
from scipy.special import softmax
from torch import Tensor

from shiftcal.calibrators.base import CalibrationData
from shiftcal.calibrators.cpcs import Cpcs, fit_brier_temperature
from shiftcal.functional.temperature import fit_temperature

Sample = Callable[[int, int], tuple[Tensor, Tensor]]
MakeData = Callable[..., CalibrationData]


def test_two_classes_have_a_closed_form() -> None:
    """With logits (m, 0) right in a (smoothed) share p, the Brier score too is lowest at m / log(p / (1 - p))."""
    logits, labels = torch.tensor([[4.0, 0.0]]).repeat(100, 1), torch.tensor([0] * 80 + [1] * 20)
    share = 0.8 * (1 - 1 / 101) + 0.5 / 101
    found = fit_brier_temperature(logits, labels, torch.ones(100))
    assert found == pytest.approx(4 / np.log(share / (1 - share)), rel=1e-5)


@pytest.mark.parametrize("offset", [0.0, 0.5])
def test_it_is_the_lowest_weighted_brier_score(make_data: MakeData, sample: Sample, offset: float) -> None:
    logits, labels = sample(80, 3)
    target = logits + torch.tensor([1.0, 0.0, -0.5])
    data = make_data(logits, labels, target)
    weights = Cpcs().source_weights(data).numpy() + offset
    onehot = np.eye(3)[labels.numpy()] * (1 - 1 / 81) + 1 / 81 / 3
    grid = np.exp(np.linspace(-2, 2, 2001))
    scores = [(weights * ((softmax(logits.numpy() / t, axis=1) - onehot) ** 2).sum(axis=1)).sum() for t in grid]
    state = Cpcs(weight_offset=offset).fit(data)
    assert float(state["temperature"]) == pytest.approx(grid[int(np.argmin(scores))], rel=3e-3)


def test_without_a_shift_it_is_nearly_temperature_scaling(make_data: MakeData, sample: Sample) -> None:
    logits, labels = sample(5000, 4)
    target, _ = sample(6000, 4)
    state = Cpcs().fit(make_data(logits, labels, target))
    assert float(state["temperature"]) == pytest.approx(fit_temperature(logits, labels), rel=0.05)


@pytest.mark.parametrize("num_rows", [10, 50, 400])
def test_rows_that_are_all_classified_rightly_make_no_prediction_certain(num_rows: int) -> None:
    """Their squared loss is as low as can be at T = 0; the likelihood with its smoothed labels is not."""
    generator = torch.Generator().manual_seed(num_rows)
    logits = torch.randn(num_rows, 10, generator=generator)
    weights = torch.exp(torch.randn(num_rows, generator=generator)) + 0.5
    labels = logits.argmax(dim=-1)
    ratio = fit_brier_temperature(logits, labels, weights) / fit_temperature(logits, labels, weights)
    assert 0.5 - 1e-6 <= ratio <= 2
