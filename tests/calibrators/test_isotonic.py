from collections.abc import Callable

import numpy as np
import pytest
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.frozen import FrozenEstimator
from torch import Tensor

from shiftcal.calibrators.base import CalibrationData
from shiftcal.calibrators.isotonic import Isotonic
from shiftcal.methods.base import Outputs

Sample = Callable[[int, int], tuple[Tensor, Tensor]]
MakeData = Callable[..., CalibrationData]


class SoftmaxOfInputs(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A fitted classifier whose inputs are its logits."""

    def fit(self, X: np.ndarray, y: np.ndarray) -> "SoftmaxOfInputs":
        self.classes_ = np.unique(y)
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        return np.asarray(self.predict_proba(X).argmax(axis=1))

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        return torch.softmax(torch.from_numpy(X), dim=-1).numpy()


def probabilities_of(logits: Tensor, state: dict[str, Tensor]) -> Tensor:
    return Isotonic().calibrate(Outputs(logits, torch.ones(len(logits)), logits), state).exp()


def test_it_is_scikit_learns_multiclass_calibration_smoothed(make_data: MakeData, sample: Sample) -> None:
    logits, labels = (values.double() if values.is_floating_point() else values for values in sample(300, 4))
    fresh = 3 * torch.randn(500, 4, generator=torch.Generator().manual_seed(9), dtype=torch.float64)
    base = SoftmaxOfInputs().fit(logits.numpy(), labels.numpy())
    reference = CalibratedClassifierCV(FrozenEstimator(base), method="isotonic").fit(logits.numpy(), labels.numpy())
    expected = reference.predict_proba(fresh.numpy()) * (1 - 1 / 301) + 1 / 301 / 4
    calibrated = probabilities_of(fresh, Isotonic().fit(make_data(logits, labels)))
    np.testing.assert_allclose(calibrated, expected, atol=1e-9)


def test_adjacent_violators_are_pooled_by_hand(make_data: MakeData) -> None:
    """Class 0 at .2 .4 .6 .8 is 0 1 0 1: the middle two are pooled to one half; class 1 is its mirror image."""
    first = torch.tensor([0.2, 0.4, 0.6, 0.8], dtype=torch.float64)
    logits = torch.stack([first, 1 - first], dim=1).log()
    calibrated = probabilities_of(logits, Isotonic().fit(make_data(logits, torch.tensor([1, 0, 1, 0]))))
    assert calibrated[:, 0].tolist() == pytest.approx([0.1, 0.5, 0.5, 0.9])  # smoothed by 1 / (4 + 1)


def test_no_probability_is_below_the_floor(make_data: MakeData, sample: Sample) -> None:
    logits, labels = sample(30, 5)
    state = Isotonic().fit(make_data(logits, labels.clamp_max(2)))  # two classes without a row
    extreme = torch.tensor([[1e4, 0.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0, 1e4]])
    assert float(probabilities_of(extreme, state).min()) >= (1 - 1e-5) / 31 / 5
