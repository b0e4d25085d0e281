"""What inputs add to calibrated confidence, against the chances that labels were drawn with."""

import numpy as np
import pytest

from shiftcal.target.diagnosis import Diagnosis, NewClasses, PriorShift
from shiftcal.target.right_probability import RightProbability


def drawn(num_rows: int, seed: int, *, harm: float, share: float = 0.3) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Calibrated confidence, inputs, and the chance to be right: less by `harm` where the first input is 1."""
    generator = np.random.default_rng(seed)
    inputs = np.column_stack([generator.random(num_rows) < share, generator.normal(size=num_rows)]).astype(float)
    confidence = generator.uniform(0.6, 0.9, num_rows)
    chance = confidence - harm * (inputs[:, 0] - 0.3)
    return confidence, inputs, chance


@pytest.mark.parametrize("num_rows", [400, 4_000])
def test_inputs_that_say_nothing_change_nothing(num_rows: int) -> None:
    calibrated, inputs, chance = drawn(num_rows, 0, harm=0.0)
    right = np.random.default_rng(1).random(num_rows) < chance
    learned = RightProbability(calibrated, right, inputs)
    assert learned.of(calibrated, inputs).mean() == pytest.approx(calibrated.mean(), abs=0.002)
    np.testing.assert_array_equal(learned.of(calibrated, None), calibrated)


def test_more_of_the_rows_that_are_wrong_more_often_lower_what_is_expected() -> None:
    calibrated, inputs, chance = drawn(4_000, 0, harm=0.3)
    learned = RightProbability(calibrated, np.random.default_rng(1).random(4_000) < chance, inputs)
    assert learned.share > 0.5
    confidence, others, truth = drawn(4_000, 2, harm=0.3, share=0.9)
    assert truth.mean() == pytest.approx(confidence.mean() - 0.18, abs=0.01)
    # It errs to the side of confidence, by what is not confirmed.
    assert truth.mean() < learned.of(confidence, others).mean() < confidence.mean() - 0.1


def test_rows_of_new_classes_are_expected_to_be_wrong() -> None:
    calibrated, inputs, chance = drawn(1_000, 0, harm=0.0)
    learned = RightProbability(calibrated, np.random.default_rng(1).random(1_000) < chance, None)
    prior = PriorShift((), 0.0, 0.0, 0.5, 0.5, 1.0, explains=False)
    found = Diagnosis(0.5, 0.9, reach=(0.1, 0.1), prior_shift=prior, new_classes=NewClasses(0.4, 0.3, 1))
    expected = learned.brought_to(found, calibrated, inputs).accuracy
    assert calibrated.mean() > 0.7
    assert expected == pytest.approx(0.7)
