from collections.abc import Callable

import numpy as np
import torch
from scipy.optimize import minimize
from scipy.special import log_softmax
from torch import Tensor

from shiftcal.calibrators.base import CalibrationData
from shiftcal.calibrators.vector import Vector
from shiftcal.methods.base import Outputs

Sample = Callable[[int, int], tuple[Tensor, Tensor]]
MakeData = Callable[..., CalibrationData]


def calibrated(data: CalibrationData, logits: Tensor) -> Tensor:
    outputs = Outputs(logits, torch.ones(len(logits)), logits)
    return torch.softmax(Vector().calibrate(outputs, Vector().fit(data)).double(), dim=-1)


def test_probabilities_are_those_of_an_independent_optimiser(make_data: MakeData, sample: Sample) -> None:
    logits, labels = sample(200, 3)
    values = logits.double().numpy()
    values = values - values.mean(axis=1, keepdims=True)
    expected_labels = np.eye(3)[labels.numpy()] * (1 - 1 / 201) + 1 / 201 / 3

    def loss(parameters: np.ndarray) -> float:
        return float(-(expected_labels * log_softmax(values * parameters[:3] + parameters[3:], axis=1)).sum() / 200)

    found = minimize(loss, np.r_[np.ones(3), np.zeros(3)], method="BFGS").x
    expected = np.exp(log_softmax(values * found[:3] + found[3:], axis=1))
    np.testing.assert_allclose(calibrated(make_data(logits, labels), logits), expected, atol=2e-4)


def test_scales_and_biases_that_labels_were_drawn_with_are_recovered(make_data: MakeData) -> None:
    logits = 2 * torch.randn(60_000, 3, generator=torch.Generator().manual_seed(0))
    logits = logits - logits.mean(dim=1, keepdim=True)
    true = logits * torch.tensor([0.5, 1.0, 1.5]) + torch.tensor([0.5, 0.0, -0.5])
    probabilities = torch.softmax(true.double(), dim=-1)
    labels = torch.multinomial(probabilities, 1, generator=torch.Generator().manual_seed(1)).squeeze(1)
    torch.testing.assert_close(calibrated(make_data(logits, labels), logits), probabilities, atol=0.02, rtol=0)


def test_a_class_without_held_out_rows_keeps_a_probability(make_data: MakeData, sample: Sample) -> None:
    logits, labels = sample(60, 4)
    assert calibrated(make_data(logits, labels.clamp_max(2)), logits)[:, 3].min() > 1e-12


def test_a_constant_per_row_changes_nothing(make_data: MakeData, sample: Sample) -> None:
    logits, labels = sample(60, 3)
    data = make_data(logits, labels)
    torch.testing.assert_close(calibrated(data, logits + 7), calibrated(data, logits), rtol=1e-4, atol=1e-6)
