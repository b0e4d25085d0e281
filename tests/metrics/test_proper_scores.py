from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.metrics import brier_score_loss, log_loss

from shiftcal.metrics import brier_score, negative_log_likelihood

Predictions = tuple[NDArray[np.float64], NDArray[np.int64]]
TINY = 2.2250738585072014e-308


def test_brier_score_equals_plain_loops(predictions: Predictions) -> None:
    probabilities, labels = predictions
    total = 0.0
    for row, label in zip(probabilities.tolist(), labels.tolist(), strict=True):
        total += sum((value - (index == label)) ** 2 for index, value in enumerate(row))
    assert brier_score(probabilities, labels) == pytest.approx(total / len(labels), abs=1e-12)


def test_negative_log_likelihood_equals_plain_loops(predictions: Predictions) -> None:
    probabilities, labels = predictions
    rows = zip(probabilities.tolist(), labels.tolist(), strict=True)
    losses = [-math.log(max(row[label], TINY)) for row, label in rows]
    expected = math.fsum(losses) / len(losses)
    assert negative_log_likelihood(probabilities, labels) == pytest.approx(expected, rel=1e-13)


@pytest.mark.parametrize("num_classes", [2, 6])
def test_equal_sklearn(num_classes: int) -> None:
    rng = np.random.default_rng(num_classes)
    probabilities = rng.dirichlet(np.ones(num_classes), 500)
    labels = rng.integers(0, num_classes, 500)
    classes = np.arange(num_classes)
    expected = brier_score_loss(labels, probabilities, labels=classes, scale_by_half=False)
    assert brier_score(probabilities, labels) == pytest.approx(expected, abs=1e-12)
    expected = log_loss(labels, probabilities, labels=classes)
    assert negative_log_likelihood(probabilities, labels) == pytest.approx(expected, abs=1e-12)


def test_brier_score_lies_between_0_and_2() -> None:
    one_hot = np.eye(3)
    assert brier_score(one_hot, np.array([0, 1, 2])) == 0
    assert brier_score(one_hot, np.array([1, 2, 0])) == 2


def test_probability_zero_of_the_label_costs_the_documented_clip() -> None:
    value = negative_log_likelihood(np.array([[1.0, 0.0]]), np.array([1]))
    assert value == -math.log(TINY)
    assert negative_log_likelihood(np.array([[1.0, 0.0]]), np.array([0])) == 0
