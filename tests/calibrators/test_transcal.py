from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from shiftcal.calibrators.base import CalibrationData
from shiftcal.calibrators.transcal import TransCal, estimate_accuracy, mean_confidence
from shiftcal.functional.temperature import fit_temperature

Sample = Callable[[int, int], tuple[Tensor, Tensor]]
MakeData = Callable[..., CalibrationData]


def weighted_errors(num_rows: int, seed: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    weights = torch.exp(torch.randn(num_rows, generator=generator, dtype=torch.float64) - 0.5)
    errors = (torch.rand(num_rows, generator=generator) < 0.1 + 0.1 * weights.clamp_max(5)).double()
    return errors, weights


def test_the_estimate_is_that_of_the_formulas() -> None:
    errors, weights = weighted_errors(50, seed=0)
    e, v = errors.numpy(), weights.numpy()
    eta_1 = -np.cov(v * e, v)[0, 1] / np.var(v, ddof=1)
    a = v * e + eta_1 * (v - 1)
    eta_2 = -np.cov(a, 1 - e)[0, 1] / np.var(1 - e, ddof=1)
    expected = 1 - np.mean(a + eta_2 * ((1 - e) - 0.7))
    assert estimate_accuracy(errors, weights, 0.7) == pytest.approx(expected, rel=1e-12)
    assert estimate_accuracy(errors, weights, None) == pytest.approx(1 - np.mean(v * e), rel=1e-12)


def test_weights_of_one_estimate_the_source_confidence() -> None:
    """Then a = e, its control variate r = 1 - e explains it wholly, and what is left is 1 - c."""
    errors, _ = weighted_errors(50, seed=1)
    assert estimate_accuracy(errors, torch.ones_like(errors), 0.7) == pytest.approx(0.7)
    assert estimate_accuracy(torch.zeros(50), torch.ones(50), 0.7) == 1  # without an error r has no variance


def test_control_variates_lower_the_variance() -> None:
    draws = [weighted_errors(200, seed) for seed in range(300)]
    accuracy = 1 - torch.stack([(w * e).mean() for e, w in draws]).mean()
    # The confidence that a calibrated model has is the accuracy that it has on average.
    confidence = 1 - float(torch.stack([e.mean() for e, _ in draws]).mean())
    plain = np.array([estimate_accuracy(e, w, None) for e, w in draws])
    reduced = np.array([estimate_accuracy(e, w, confidence) for e, w in draws])
    assert reduced.var() < plain.var() / 2
    assert reduced.mean() == pytest.approx(float(accuracy), abs=0.02)


def test_without_a_shift_it_is_nearly_temperature_scaling(make_data: MakeData, sample: Sample) -> None:
    logits, labels = sample(3000, 4)
    target, _ = sample(4000, 4)
    state = TransCal().fit(make_data(logits, labels, target))
    assert float(state["temperature"]) == pytest.approx(fit_temperature(logits, labels), rel=0.1)


def test_without_reductions_confidence_is_the_weighted_accuracy(make_data: MakeData, sample: Sample) -> None:
    logits, labels = sample(300, 3)
    ratio = torch.rand(300, generator=torch.Generator().manual_seed(0)) + 0.7
    data = make_data(logits, labels, logits, density_ratio=lambda _: ratio)
    plain = TransCal(ratio="model", bias_reduction=False, variance_reduction=False)
    temperature = float(plain.fit(data)["temperature"])
    wrong = (logits.argmax(dim=-1) != labels).double()
    expected = 1 - float((wrong / ratio).mean())
    assert mean_confidence(logits.double(), temperature) == pytest.approx(expected, abs=1e-6)


def test_the_search_keeps_to_its_bounds(make_data: MakeData, sample: Sample) -> None:
    logits, _ = sample(200, 3)
    right, wrong = logits.argmax(dim=-1), logits.argmin(dim=-1)
    timid = TransCal(ratio="model").fit(make_data(logits / 10, right, logits / 10))
    assert float(timid["temperature"]) == 1
    freed = TransCal(ratio="model", smallest_temperature=0.01).fit(make_data(logits / 10, right, logits / 10))
    assert float(freed["temperature"]) < 0.5
    hopeless = TransCal(ratio="model", variance_reduction=False).fit(make_data(logits, wrong, logits))
    assert float(hopeless["temperature"]) == pytest.approx(np.exp(7))
    assert 0 <= float(hopeless["power"]) <= 1
