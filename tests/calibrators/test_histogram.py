from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from shiftcal.calibrators.base import CalibrationData
from shiftcal.calibrators.histogram import Histogram
from shiftcal.methods.base import Outputs

Sample = Callable[[int, int], tuple[Tensor, Tensor]]
MakeData = Callable[..., CalibrationData]


def probabilities_of(logits: Tensor, state: dict[str, Tensor]) -> Tensor:
    return Histogram().calibrate(Outputs(logits, torch.ones(len(logits)), logits), state).exp()


def test_two_bins_by_hand(make_data: MakeData) -> None:
    """Ten rows at confidence 0.6, of which 7 are right, and ten at 0.9, of which 8 are."""
    values = torch.tensor([[0.6, 0.3, 0.1]] * 10 + [[0.9, 0.08, 0.02]] * 10, dtype=torch.float64)
    labels = torch.tensor([0] * 7 + [1] * 3 + [0] * 8 + [2] * 2)
    state = Histogram(num_bins=2).fit(make_data(values.log(), labels))
    assert state["shares"].tolist() == pytest.approx([0.7, 0.8])
    calibrated = probabilities_of(values[[0, 10]].log(), state)
    expected = torch.tensor([[0.7, 0.3 * 0.75, 0.3 * 0.25], [0.8, 0.2 * 0.8, 0.2 * 0.2]], dtype=torch.float64)
    torch.testing.assert_close(calibrated, expected)


def test_equal_confidences_share_a_bin(make_data: MakeData) -> None:
    logits = torch.tensor([[2.0, 0.0]]).repeat(40, 1)
    state = Histogram(num_bins=4).fit(make_data(logits, torch.tensor([0] * 30 + [1] * 10)))
    assert state["shares"].tolist() == pytest.approx([0.75])
    assert state["edges"].numel() == 0


def test_bins_hold_equal_numbers_and_at_least_ten_rows(make_data: MakeData, sample: Sample) -> None:
    logits, labels = sample(45, 3)
    state = Histogram().fit(make_data(logits, labels))
    confidence = torch.softmax(logits.double(), dim=-1).amax(dim=-1)
    assert torch.bucketize(confidence, state["edges"]).bincount().tolist() == [12, 11, 11, 11]


@pytest.mark.parametrize("num_classes", [2, 3, 7])
def test_the_prediction_never_changes_and_has_the_share_of_its_bin(
    make_data: MakeData, sample: Sample, num_classes: int
) -> None:
    logits, labels = sample(200, num_classes)
    state = Histogram().fit(make_data(logits, labels.roll(1)))  # labels at random: shares are near chance
    calibrated = probabilities_of(logits, state)
    assert torch.equal(calibrated.argmax(dim=-1), logits.argmax(dim=-1))
    torch.testing.assert_close(calibrated.sum(dim=-1), torch.ones(200))
    confidence = torch.softmax(logits.double(), dim=-1).amax(dim=-1)
    shares = state["shares"][torch.bucketize(confidence, state["edges"])].clamp_min(1.001 / num_classes)
    torch.testing.assert_close(calibrated.amax(dim=-1).double(), shares, rtol=1e-5, atol=1e-6)


def test_a_bin_without_an_error_and_certain_logits_stay_finite(make_data: MakeData) -> None:
    logits = torch.tensor([[5e3, 0.0, -5e3]]).repeat(20, 1)
    state = Histogram(num_bins=1).fit(make_data(logits, torch.zeros(20, dtype=torch.long)))
    assert float(state["shares"]) == pytest.approx(20 / 21)
    calibrated = probabilities_of(logits, state)
    assert float(calibrated.min()) == pytest.approx(1e-12, rel=1e-4)
