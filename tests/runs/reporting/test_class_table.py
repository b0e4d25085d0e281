from collections.abc import Callable

import numpy as np
import pytest

from shiftcal.runs.predictions import Predictions
from shiftcal.runs.reporting.class_table import ClassRow, class_rows


def test_means_are_over_the_true_class(binary: Callable[..., Predictions]) -> None:
    first, second = class_rows(binary([0.9, 0.4, 0.7], [0, 0, 1], ratio=[1.0, 2.0, 4.0]))
    assert first == pytest.approx(ClassRow(2, 2, 0.5, 0.75, 1.5))
    assert second == pytest.approx(ClassRow(1, 1, 0.0, 0.7, 4.0))


def test_without_labels_means_are_over_the_predicted_class(binary: Callable[..., Predictions]) -> None:
    first, second = class_rows(binary([0.9, 0.7], ratio=[1.0, 2.0]))
    assert (first.num_inputs, first.accuracy) == (None, None)
    assert (first.confidence, first.density_ratio) == pytest.approx((0.8, 1.5))
    assert second == ClassRow(None, 0, None, None, None)


def test_an_absent_class_has_a_count_and_no_means() -> None:
    predictions = Predictions(
        np.array(["0"]), np.array([[0.2, 0.5, 0.3]]), np.ones(1), ("a", "b", "c"), np.array([0])
    )
    assert class_rows(predictions)[2] == ClassRow(0, 0, None, None, None)
    assert class_rows(predictions)[1] == ClassRow(0, 1, None, None, None)
