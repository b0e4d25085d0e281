import math

import pytest
import torch

from shiftcal.calibrators.temperature import Temperature
from shiftcal.functional.temperature import fit_temperature
from shiftcal.methods.base import Outputs


def test_two_classes_have_a_closed_form() -> None:
    """With logits (m, 0) right in a (smoothed) share p of the cases, the best temperature is m / log(p / (1 - p))."""
    margin = 4.0
    logits = torch.tensor([[margin, 0.0]]).repeat(100, 1)
    labels = torch.tensor([0] * 80 + [1] * 20)
    share = 0.8 * (1 - 1 / 101) + 0.5 / 101
    assert fit_temperature(logits, labels) == pytest.approx(margin / math.log(share / (1 - share)), rel=1e-6)


def test_weights_count_as_repeated_samples() -> None:
    generator = torch.Generator().manual_seed(0)
    logits, labels = torch.randn(50, 3, generator=generator), torch.randint(3, (50,), generator=generator)
    weights = torch.randint(1, 4, (50,), generator=generator)
    repeated = fit_temperature(logits.repeat_interleave(weights, 0), labels.repeat_interleave(weights))
    # The two differ in nothing but the smoothing, which depends on the number of rows.
    assert fit_temperature(logits, labels, weights.double()) == pytest.approx(repeated, rel=0.05)


def test_it_recovers_the_temperature_that_labels_were_drawn_with() -> None:
    generator = torch.Generator().manual_seed(0)
    logits = 3 * torch.randn(40_000, 4, generator=generator)
    labels = torch.multinomial(torch.softmax(logits / 2.5, dim=-1), 1, generator=generator).squeeze(1)
    assert fit_temperature(logits, labels) == pytest.approx(2.5, rel=0.03)


def test_data_without_an_error_gives_no_certain_predictions() -> None:
    """N right answers in a row: confidence 1 - (C - 1) / (C (N + 1)), and not 1."""
    num_rows = 49
    logits = torch.tensor([[5.0, 0.0, 0.0]]).repeat(num_rows, 1)
    temperature = fit_temperature(logits, torch.zeros(num_rows, dtype=torch.long))
    confidence = float(torch.softmax(logits[0].double() / temperature, dim=-1)[0])
    assert confidence == pytest.approx(1 - 2 / (3 * (num_rows + 1)), abs=1e-6)


def test_calibration_divides_the_logits() -> None:
    outputs = Outputs(torch.tensor([[2.0, 4.0]]), torch.ones(1), torch.zeros(1, 1))
    state = {"temperature": torch.tensor(2.0, dtype=torch.float64)}
    assert Temperature().calibrate(outputs, state).tolist() == [[1.0, 2.0]]
