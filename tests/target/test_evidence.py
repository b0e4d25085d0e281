import numpy as np
import pytest
import torch

from shiftcal.target.evidence import calibration_gap, mean_confidence
from shiftcal.target.sampling import sampled_rows


def test_all_rows_or_a_sample_that_is_the_same_each_time() -> None:
    assert sampled_rows(5, 10).tolist() == [0, 1, 2, 3, 4]
    sample = sampled_rows(1000, 100)
    assert len(np.unique(sample)) == 100
    assert (np.diff(sample) > 0).all()
    np.testing.assert_array_equal(sample, sampled_rows(1000, 100))


@pytest.mark.parametrize("period", [2, 4, 10])
def test_a_sample_of_rows_whose_classes_come_in_turn_has_all_of_them(period: int) -> None:
    """Rows at even distances were of a single class where the distance was a multiple of the period."""
    shares = np.bincount(sampled_rows(40_000, 4_000) % period) / 4_000
    assert shares.min() > 0.8 / period


def test_mean_confidence_is_that_of_the_softmax() -> None:
    assert mean_confidence(torch.tensor([[0.0, 0.0], [3.0, 0.0]]).log_softmax(-1)) == pytest.approx(
        (0.5 + 1 / (1 + np.exp(-3))) / 2
    )


def test_the_calibration_gap_is_what_labels_show_beyond_a_standard_error() -> None:
    logits = torch.tensor([[2.0, 0.0]]).double().expand(100, 2)  # confidence .881
    labels = (torch.arange(100) >= 60).long()  # accuracy .6, standard error .049
    gap = 0.6 - 1 / (1 + np.exp(-2.0))
    assert calibration_gap(logits, labels) == pytest.approx(gap + (0.24 / 100) ** 0.5)
    few = (torch.arange(5) >= 4).long()  # .8, as good as .881 by five rows
    assert calibration_gap(logits[:5], few) == 0
    unsure = torch.tensor([[0.2, 0.0]]).double().expand(100, 2)
    assert calibration_gap(unsure, torch.zeros(100).long()) == pytest.approx(
        1 - 1 / (1 + np.exp(-0.2)) - 0.01, abs=1e-6
    )
