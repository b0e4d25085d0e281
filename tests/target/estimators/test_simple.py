"""Estimators from outputs alone, against values worked out by hand."""

import pytest
import torch

from shiftcal.target.estimators.average_thresholded_confidence import AverageThresholdedConfidence
from shiftcal.target.estimators.calibrated_confidence import CalibratedConfidence
from shiftcal.target.estimators.difference_of_confidences import DifferenceOfConfidences
from shiftcal.target.estimators.mean_confidence import MeanConfidence
from shiftcal.target.evidence import ObservedRows, ShiftEvidence

SURE, UNSURE = torch.tensor([4.0, 0.0, 0.0]).double(), torch.tensor([0.5, 0.0, 0.0]).double()
OF_SURE, OF_UNSURE = (float(row.softmax(0)[0]) for row in (SURE, UNSURE))


@pytest.fixture
def evidence() -> ShiftEvidence:
    """Held-out rows are right where they are sure (9 of 10); half of the target rows are as sure."""
    held_out = torch.cat([SURE.expand(90, 3), UNSURE.expand(10, 3)])
    labels = torch.cat([torch.zeros(90), torch.ones(10)]).long()
    target = torch.cat([SURE.expand(50, 3), UNSURE.expand(50, 3)])
    rows, target_rows = (
        ObservedRows(logits, torch.full((100,), 0.5).double(), None) for logits in (held_out, target)
    )
    return ShiftEvidence(rows, labels, target_rows)


def test_mean_confidence(evidence: ShiftEvidence) -> None:
    assert MeanConfidence().estimate(evidence) == pytest.approx((OF_SURE + OF_UNSURE) / 2)


def test_average_thresholded_confidence(evidence: ShiftEvidence) -> None:
    assert AverageThresholdedConfidence().estimate(evidence) == pytest.approx(0.5)


def test_average_thresholded_confidence_by_entropy(evidence: ShiftEvidence) -> None:
    """Of these two kinds of rows the surer one has the lower entropy too."""
    assert AverageThresholdedConfidence(score="entropy").estimate(evidence) == pytest.approx(0.5)


def test_calibrated_confidence(evidence: ShiftEvidence) -> None:
    """Sure rows are always right on the source, unsure ones never: half of the target."""
    assert CalibratedConfidence().estimate(evidence) == pytest.approx(0.5)


def test_calibrated_confidence_is_exact_where_confidence_keeps_its_meaning() -> None:
    """Too sure by a power, on both domains alike; the target has more rows that are hard."""
    generator = torch.Generator().manual_seed(0)

    def rows(num_rows: int, spread: float) -> tuple[ObservedRows, torch.Tensor]:
        honest = spread * torch.randn(num_rows, 2, generator=generator, dtype=torch.float64)
        labels = torch.multinomial(honest.softmax(dim=-1), 1, generator=generator).squeeze(1)
        return ObservedRows(3 * honest, torch.full((num_rows,), 0.5).double(), None), labels

    source, (target, target_labels) = rows(20_000, 2.0), rows(20_000, 0.7)
    truth = float((target.predicted == target_labels).double().mean())
    evidence = ShiftEvidence(*source, target)
    assert CalibratedConfidence().estimate(evidence) == pytest.approx(truth, abs=0.01)
    assert MeanConfidence().estimate(evidence) > truth + 0.1


def test_difference_of_confidences(evidence: ShiftEvidence) -> None:
    """Accuracy .9 less confidence on the source, shrunk by a standard error of .03."""
    gap = 0.9 - (0.9 * OF_SURE + 0.1 * OF_UNSURE)
    shrunk = max(abs(gap) - 0.03, 0) * (1 if gap > 0 else -1)
    assert DifferenceOfConfidences().estimate(evidence) == pytest.approx((OF_SURE + OF_UNSURE) / 2 + shrunk)
