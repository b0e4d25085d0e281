from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from shiftcal.calibrators.base import CalibrationData
from shiftcal.calibrators.perturbed_temperature import PerturbedTemperature, find_strengths
from shiftcal.data.inputs import SubsetInputs
from shiftcal.data.noise import FeatureSpread, NoisyInputs
from shiftcal.functional.temperature import fit_temperature
from shiftcal.target.row_order import content_order

MakeData = Callable[..., CalibrationData]


def test_strengths_of_a_known_curve_are_found() -> None:
    """accuracy(s) = 0.1 + 0.8 / (1 + s): each level's strength has a closed form."""
    calls = []

    def accuracy(strength: float) -> float:
        calls.append(strength)
        return 0.1 + 0.8 / (1 + strength)

    strengths = find_strengths(accuracy, 10, chance=0.1, tolerance=0.01)
    wanted = np.linspace(0.9, 0.1, 10)
    reached = np.array([accuracy(strength) for strength in strengths])
    assert strengths[0] == 0
    np.testing.assert_allclose(reached, wanted, atol=0.009)
    assert len(calls) < 10 + 60


def test_a_model_at_chance_needs_no_noise() -> None:
    assert find_strengths(lambda _: 0.3, 10, chance=0.5, tolerance=0.03) == [0.0] * 10


def test_noise_that_never_leads_to_chance_is_given_up() -> None:
    strengths = find_strengths(lambda strength: 0.9 - 0.2 * min(strength, 1), 5, chance=0.1, tolerance=0.03)
    assert len(strengths) == 5
    assert max(strengths) <= 0.1 * 2**12


def clusters(num_rows: int) -> tuple[Tensor, Tensor]:
    labels = torch.arange(num_rows) % 4
    noise = torch.randn(num_rows, 4, generator=torch.Generator().manual_seed(0))
    return 4 * torch.eye(4)[labels] + noise, labels


def test_levels_span_from_full_accuracy_to_chance_and_confidence_falls(make_data: MakeData) -> None:
    inputs, labels = clusters(1000)
    data = make_data(inputs, labels)
    state = PerturbedTemperature().fit(data)
    clean = float((inputs.argmax(dim=-1) == labels).double().mean())
    np.testing.assert_allclose(state["accuracies"], np.linspace(clean, 0.25, 10), atol=0.03 * clean + 1e-9)
    assert float(state["temperature"]) > 1.5 * fit_temperature(inputs, labels)


def test_the_temperature_is_that_of_all_copies_together(make_data: MakeData) -> None:
    inputs, labels = clusters(200)
    data = make_data(inputs, labels)
    state = PerturbedTemperature(num_levels=3).fit(data)
    assert data.held_out_inputs is not None
    spread, order = FeatureSpread.of(data.held_out_inputs), content_order(inputs)
    copies = [
        NoisyInputs(SubsetInputs(data.held_out_inputs, order), strength, spread, seed=0).fetch(np.arange(200))
        for strength in state["strengths"].tolist()
    ]
    expected = fit_temperature(torch.cat(copies), labels[order].repeat(3))
    assert float(state["temperature"]) == pytest.approx(expected, rel=1e-4)
