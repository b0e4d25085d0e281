from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from shiftcal.calibrators.base import CalibrationData
from shiftcal.calibrators.perturbed_temperature import (
    FeatureSpread,
    NoisyInputs,
    PerturbedTemperature,
    find_strengths,
)
from shiftcal.calibrators.temperature import fit_temperature
from shiftcal.data.inputs import ArrayInputs

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


def test_noise_depends_on_the_row_and_grows_with_the_strength() -> None:
    base = ArrayInputs(torch.full((50, 1, 8, 8), 0.5))
    weak, strong = NoisyInputs(base, 0.01, None, seed=3), NoisyInputs(base, 0.02, None, seed=3)
    rows = np.array([4, 1])
    torch.testing.assert_close(strong.fetch(rows) - 0.5, 2 * (weak.fetch(rows) - 0.5), rtol=1e-3, atol=1e-6)
    assert torch.equal(weak.fetch(rows)[1:], weak.fetch(rows[1:]))
    assert float(weak.fetch(np.arange(50)).std()) == pytest.approx(0.01, rel=0.1)
    cut = NoisyInputs(base, 10.0, None, seed=3).fetch(rows)
    assert (float(cut.min()), float(cut.max())) == (0, 1)


def test_noisy_features_keep_their_spread() -> None:
    values = 5 + 3 * torch.randn(4000, 2, generator=torch.Generator().manual_seed(0)) * torch.tensor([1.0, 10.0])
    base = ArrayInputs(values)
    noisy = NoisyInputs(base, 2.0, FeatureSpread.of(base), seed=0).fetch(np.arange(4000))
    torch.testing.assert_close(noisy.std(dim=0), values.std(dim=0), rtol=0.05, atol=0)
    correlation = np.corrcoef(noisy[:, 0], values[:, 0])[0, 1]
    assert correlation == pytest.approx(1 / np.sqrt(5), abs=0.05)


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
    spread = FeatureSpread.of(data.source_inputs)
    copies = [
        NoisyInputs(data.source_inputs, strength, spread, seed=0).fetch(np.arange(200))
        for strength in state["strengths"].tolist()
    ]
    expected = fit_temperature(torch.cat(copies), labels.repeat(3))
    assert float(state["temperature"]) == pytest.approx(expected, rel=1e-4)
