import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from shiftcal.calibrators.base import CalibrationData
from shiftcal.calibrators.importance_weighted_temperature import ImportanceWeightedTemperature
from shiftcal.functional.temperature import fit_temperature

Sample = Callable[[int, int], tuple[Tensor, Tensor]]
MakeData = Callable[..., CalibrationData]


def test_a_model_without_a_ratio_gives_temperature_scaling(make_data: MakeData, sample: Sample) -> None:
    logits, labels = sample(100, 3)
    state = ImportanceWeightedTemperature(ratio="model").fit(make_data(logits, labels, logits + 1))
    assert float(state["temperature"]) == pytest.approx(fit_temperature(logits, labels), rel=1e-6)
    assert float(state["effective_sample_size"]) == pytest.approx(100)


def test_without_a_shift_it_is_nearly_temperature_scaling(make_data: MakeData, sample: Sample) -> None:
    logits, labels = sample(2000, 4)
    target, _ = sample(3000, 4)
    state = ImportanceWeightedTemperature().fit(make_data(logits, labels, target))
    assert float(state["temperature"]) == pytest.approx(fit_temperature(logits, labels), rel=0.02)
    assert float(state["effective_sample_size"]) > 1950


def test_weights_of_two_groups_have_a_closed_form(make_data: MakeData) -> None:
    """Two groups with logits (4, 0), right in 90 % and 60 % of the rows; the second weighs three times as much."""
    logits = torch.tensor([[4.0, 0.0]]).repeat(200, 1)
    labels = torch.tensor([0] * 90 + [1] * 10 + [0] * 60 + [1] * 40)
    group = torch.tensor([1.5] * 100 + [0.5] * 100)  # P_source / P_target
    data = make_data(logits, labels, logits, density_ratio=lambda _: group)
    share = (0.9 + 3 * 0.6) / 4 * (1 - 1 / 201) + 0.5 / 201
    state = ImportanceWeightedTemperature(ratio="model").fit(data)
    assert float(state["temperature"]) == pytest.approx(4 / math.log(share / (1 - share)), rel=1e-5)


def test_it_finds_the_temperature_of_a_shifted_target(make_data: MakeData) -> None:
    """Logits are right for x < 0 and three times too large for x > 0; the target is nearly all in the latter."""
    generator = torch.Generator().manual_seed(0)
    source = torch.randn(20_000, 2, generator=generator)
    target = torch.randn(20_000, 2, generator=generator) + torch.tensor([1.5, 0.0])

    def predict(inputs: Tensor) -> Tensor:
        scale = torch.where(inputs[:, :1] > 0, 3.0, 1.0)
        return scale * torch.cat([inputs[:, 1:], -inputs[:, 1:]], dim=1)

    chances = torch.sigmoid(-2 * source[:, 1])
    labels = (torch.rand(20_000, generator=generator) < chances).long()
    target_labels = (torch.rand(20_000, generator=generator) < torch.sigmoid(-2 * target[:, 1])).long()
    wanted = fit_temperature(predict(target), target_labels)
    state = ImportanceWeightedTemperature(largest_weight=None).fit(make_data(source, labels, target, predict))
    assert float(state["temperature"]) == pytest.approx(wanted, rel=0.1)
    assert fit_temperature(predict(source), labels) < wanted - 0.3
