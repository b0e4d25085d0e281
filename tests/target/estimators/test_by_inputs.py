"""Estimators that look at inputs: under covariate shift whose answer is known."""

import pytest
import torch
from torch import Tensor

from shiftcal.target.estimators.average_thresholded_confidence import AverageThresholdedConfidence
from shiftcal.target.estimators.calibrated_confidence import CalibratedConfidence
from shiftcal.target.estimators.confidence_optimal_transport import ConfidenceOptimalTransport
from shiftcal.target.estimators.importance_weighted_accuracy import ImportanceWeightedAccuracy
from shiftcal.target.estimators.importance_weighted_calibration import ImportanceWeightedCalibration
from shiftcal.target.estimators.second_model_agreement import SecondModelAgreement
from shiftcal.target.evidence import ObservedRows, ShiftEvidence


def region(num_rows: int, share_hard: float, seed: int) -> tuple[ObservedRows, Tensor]:
    """A hard region, where the classifier is right on 60 % of rows, and an easy one: 95 %; just as sure in both."""
    generator = torch.Generator().manual_seed(seed)
    is_hard = torch.rand(num_rows, generator=generator) < share_hard
    features = torch.randn(num_rows, 3, generator=generator, dtype=torch.float64)
    features[:, 0] = torch.where(is_hard, 2.0, -2.0) + 0.3 * features[:, 0]
    labels = torch.randint(2, (num_rows,), generator=generator)
    right = torch.rand(num_rows, generator=generator) < torch.where(is_hard, 0.6, 0.95)
    predicted = torch.where(right, labels, 1 - labels)
    logits = 2 * torch.eye(2, dtype=torch.float64)[predicted]
    return ObservedRows(logits, torch.full((num_rows,), 0.5).double(), features), labels


@pytest.fixture
def evidence() -> ShiftEvidence:
    source = region(6000, 0.3, 0)
    return ShiftEvidence(*source, region(3000, 0.9, 1)[0])


def test_weighted_by_the_ratio_held_out_rows_say_what_confidence_does_not(evidence: ShiftEvidence) -> None:
    truth = 0.9 * 0.6 + 0.1 * 0.95
    assert ImportanceWeightedAccuracy().estimate(evidence) == pytest.approx(truth, abs=0.03)
    assert ImportanceWeightedCalibration().estimate(evidence) == pytest.approx(truth, abs=0.03)
    assert CalibratedConfidence().estimate(evidence) > truth + 0.15
    assert AverageThresholdedConfidence().estimate(evidence) > truth + 0.15


def test_a_weight_is_bounded(evidence: ShiftEvidence) -> None:
    plain = ImportanceWeightedAccuracy(largest_weight=1.0001).estimate(evidence)
    assert plain == pytest.approx(evidence.held_out_accuracy, abs=1e-3)


def test_transport_counts_what_a_collapse_into_one_class_costs() -> None:
    """Half of the labels are of class 1, all target rows are sure of class 0: half of the mass must move."""
    sure = torch.tensor([[6.0, 0.0]]).double()
    held_out = torch.cat([sure.expand(50, 2), sure.flip(1).expand(50, 2)])
    labels = torch.tensor([0, 1]).repeat_interleave(50)
    half = torch.full((100,), 0.5).double()
    rows, target = ObservedRows(held_out, half, None), ObservedRows(sure.expand(100, 2), half, None)
    found = ConfidenceOptimalTransport().estimate(ShiftEvidence(rows, labels, target))
    assert found == pytest.approx(0.5)
    same = ConfidenceOptimalTransport().estimate(ShiftEvidence(rows, labels, rows))
    assert same == pytest.approx(float(torch.sigmoid(torch.tensor(6.0))))


def test_a_second_model_sees_where_the_first_is_led_astray() -> None:
    """The first relies on a column that means nothing on the target, the second has another as well."""

    def rows(num_rows: int, seed: int, *, is_target: bool) -> tuple[ObservedRows, Tensor]:
        generator = torch.Generator().manual_seed(seed)
        labels = torch.randint(2, (num_rows,), generator=generator)
        noise = torch.randn(num_rows, 2, generator=generator, dtype=torch.float64)
        signs = (2.0 * labels - 1).double()
        spurious = noise[:, 0] * 2 if is_target else 2 * signs + noise[:, 0]
        features = torch.stack([spurious, 3 * signs + noise[:, 1]], dim=1)
        logits = torch.stack([-spurious, spurious], dim=1)
        return ObservedRows(logits, torch.full((num_rows,), 0.5).double(), features), labels

    source, (target, labels) = rows(1000, 0, is_target=False), rows(1000, 1, is_target=True)
    right = float((target.predicted == labels).double().mean())
    found = SecondModelAgreement().estimate(ShiftEvidence(*source, target))
    assert right < 0.55
    assert found == pytest.approx(right, abs=0.12)
    assert CalibratedConfidence().estimate(ShiftEvidence(*source, target)) > right + 0.2
    with_training = ShiftEvidence(*rows(300, 2, is_target=False), target, *source)
    assert SecondModelAgreement().estimate(with_training) == pytest.approx(right, abs=0.12)


def test_with_one_class_there_is_nothing_to_learn_for_a_second_model() -> None:
    rows, _ = region(40, 0.5, 0)
    labels = torch.zeros(40).long()
    evidence = ShiftEvidence(rows, labels, rows)
    assert SecondModelAgreement().estimate(evidence) == evidence.held_out_accuracy
