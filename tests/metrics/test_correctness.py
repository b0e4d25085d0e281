from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.metrics import accuracy_score, balanced_accuracy_score, recall_score

from shiftcal.metrics import accuracy, mean_per_class_accuracy, per_class_accuracy

Predictions = tuple[NDArray[np.float64], NDArray[np.int64]]


def test_equals_sklearn(predictions: Predictions) -> None:
    probabilities, labels = predictions
    predicted = probabilities.argmax(axis=1)
    assert accuracy(probabilities, labels) == pytest.approx(accuracy_score(labels, predicted), abs=1e-15)
    present = np.unique(labels)
    recall = recall_score(labels, predicted, labels=present, average=None, zero_division=0)
    np.testing.assert_allclose(per_class_accuracy(probabilities, labels)[present], recall, atol=1e-15)
    assert mean_per_class_accuracy(probabilities, labels) == pytest.approx(recall.mean(), abs=1e-15)


def test_mean_equals_balanced_accuracy() -> None:
    probabilities = np.random.default_rng(0).dirichlet(np.ones(3), 200)
    labels = np.arange(200) % 3
    expected = balanced_accuracy_score(labels, probabilities.argmax(axis=1))
    assert mean_per_class_accuracy(probabilities, labels) == pytest.approx(expected, abs=1e-15)


def test_absent_classes_are_nan_and_left_out_of_the_mean() -> None:
    probabilities = np.array([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]])
    labels = np.array([1, 1])
    np.testing.assert_array_equal(per_class_accuracy(probabilities, labels), [np.nan, 0.5, np.nan])
    assert mean_per_class_accuracy(probabilities, labels) == 0.5


def test_the_first_of_equally_probable_classes_is_predicted() -> None:
    assert accuracy(np.full((2, 2), 0.5), np.array([0, 1])) == 0.5
