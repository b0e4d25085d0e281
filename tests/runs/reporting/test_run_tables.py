from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from shiftcal.runs.predictions import Predictions
from shiftcal.runs.reporting.run_tables import CardGroup, ClassRow, card_groups, class_rows, written_value


def test_loose_values_come_first_and_nesting_becomes_dots() -> None:
    card = {"configuration": {"method": {"name": "drl", "extra": {}}, "epochs": 3}, "seed": 7, "versions": {}}
    assert card_groups(card) == (
        CardGroup("", (("seed", "7"),)),
        CardGroup("configuration", (("method.name", "drl"), ("method.extra", "none"), ("epochs", "3"))),
    )


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, "none"),
        (True, "yes"),
        (1e-05, "1e-05"),
        (132.441234567, "132.441"),
        ([0.1, 10], "0.1, 10"),
        ([], "none"),
        (["The first of two sentences.", "short"], "The first of two sentences.\nshort"),
        ([{"a": 1, "b": None}], "a: 1, b: none"),
    ],
)
def test_values_are_written_for_readers(value: object, words: str) -> None:
    assert written_value(value) == words


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
