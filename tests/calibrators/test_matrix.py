from collections.abc import Callable

import numpy as np
import torch
from scipy.optimize import minimize
from scipy.special import log_softmax
from torch import Tensor

from shiftcal.calibrators.base import CalibrationData
from shiftcal.calibrators.matrix import Matrix
from shiftcal.calibrators.temperature import Temperature
from shiftcal.methods.base import Outputs

Sample = Callable[[int, int], tuple[Tensor, Tensor]]
MakeData = Callable[..., CalibrationData]


def test_probabilities_are_those_of_an_independent_optimiser(make_data: MakeData, sample: Sample) -> None:
    logits, labels = sample(150, 3)
    values = logits.double().numpy()
    values = values - values.mean(axis=1, keepdims=True)
    expected_labels = np.eye(3)[labels.numpy()] * (1 - 1 / 151) + 1 / 151 / 3

    def scaled(parameters: np.ndarray) -> np.ndarray:
        return np.asarray(log_softmax(values @ parameters[:9].reshape(3, 3).T + parameters[9:], axis=1))

    def loss(parameters: np.ndarray) -> float:
        off_diagonal = parameters[:9].reshape(3, 3)[~np.eye(3, dtype=bool)]
        penalty = 0.2 * (np.mean(off_diagonal**2) + np.mean(parameters[9:] ** 2))
        return float(-(expected_labels * scaled(parameters)).sum() / 150 + penalty)

    found = minimize(loss, np.r_[np.eye(3).ravel(), np.zeros(3)], method="BFGS").x
    state = Matrix(penalty=0.2).fit(make_data(logits, labels))
    logarithms = Matrix().calibrate(Outputs(logits, torch.ones(150), logits), state)
    np.testing.assert_allclose(torch.softmax(logarithms.double(), dim=-1), np.exp(scaled(found)), atol=2e-4)


def test_a_strong_penalty_leaves_scales_alone(make_data: MakeData, sample: Sample) -> None:
    logits, labels = sample(150, 3)
    state = Matrix(penalty=1e8).fit(make_data(logits, labels))
    off_diagonal = state["matrix"] - torch.diag(state["matrix"].diagonal())
    assert float(off_diagonal.abs().max()) < 1e-6
    assert float(state["bias"].abs().max()) < 1e-6
    assert (state["matrix"].diagonal() > 0).all()


def test_cross_validation_finds_no_structure_where_there_is_none(make_data: MakeData, sample: Sample) -> None:
    """100 rows and 10 classes: a free matrix has as many parameters as there are rows."""
    logits, labels = sample(100, 10)
    chosen, free = Matrix().fit(make_data(logits, labels)), Matrix(penalty=0.0).fit(make_data(logits, labels))
    fresh, fresh_labels = sample(4000, 10)
    outputs = Outputs(fresh, torch.ones(4000), fresh)

    def loss(state: dict[str, Tensor]) -> float:
        return float(torch.nn.functional.cross_entropy(Matrix().calibrate(outputs, state), fresh_labels))

    plain = Temperature().calibrate(outputs, Temperature().fit(make_data(logits, labels)))
    assert float(chosen["penalty"]) > 1
    assert loss(chosen) < loss(free) / 2
    assert loss(chosen) < float(torch.nn.functional.cross_entropy(plain, fresh_labels)) + 0.3


def test_mixed_up_classes_are_told_apart_again(make_data: MakeData) -> None:
    """Labels are drawn after two classes were swapped: no temperature can repair that, a matrix can."""
    logits = 2 * torch.randn(3000, 3, generator=torch.Generator().manual_seed(0))
    labels = logits[:, [1, 0, 2]].argmax(dim=-1)
    calibrated = Matrix().calibrate(
        Outputs(logits, torch.ones(3000), logits), Matrix().fit(make_data(logits, labels))
    )
    assert float((calibrated.argmax(dim=-1) == labels).double().mean()) > 0.98


def test_few_rows_take_the_strongest_penalty(make_data: MakeData, sample: Sample) -> None:
    logits, labels = sample(4, 3)
    assert float(Matrix().fit(make_data(logits, labels))["penalty"]) == 1e4
