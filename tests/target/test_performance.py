"""Expected metrics against metrics of labels that are drawn."""

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, balanced_accuracy_score, f1_score, log_loss, roc_auc_score

from shiftcal.target.diagnosis import Diagnosis
from shiftcal.target.performance import confusion_matrix, expected_metrics, expected_performance, with_accuracy


def drawn(num_classes: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Probabilities of a model that is too sure, those that are true, and labels."""
    generator = np.random.default_rng(0)
    logits = generator.normal(size=(60_000, num_classes)) * 1.5
    truth = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    given = np.exp(2 * logits) / np.exp(2 * logits).sum(axis=1, keepdims=True)
    labels = (truth.cumsum(axis=1) < generator.random((len(truth), 1))).sum(axis=1)
    return given, truth, labels


@pytest.mark.parametrize("num_classes", [2, 4])
def test_they_are_what_labels_show(num_classes: int) -> None:
    given, truth, labels = drawn(num_classes)
    found, predicted = expected_metrics(given, truth), given.argmax(axis=1)
    expected = {
        "accuracy": (predicted == labels).mean(),
        "balanced_accuracy": balanced_accuracy_score(labels, predicted),
        "macro_f1": f1_score(labels, predicted, average="macro"),
        "brier_score": ((given - np.eye(num_classes)[labels]) ** 2).sum(axis=1).mean(),
        "negative_log_likelihood": log_loss(labels, given),
    }
    if num_classes == 2:
        expected["auroc"] = roc_auc_score(labels, given[:, 1])
        expected["average_precision"] = average_precision_score(labels, given[:, 1])
    assert found == pytest.approx(expected, abs=0.012)


def test_the_confusion_matrix_has_true_classes_first() -> None:
    confusion = confusion_matrix(np.array([[0.9, 0.1], [0.4, 0.6]]), np.array([0, 1]))
    np.testing.assert_allclose(confusion, [[0.45, 0.2], [0.05, 0.3]])


@pytest.mark.parametrize("accuracy", [0.0, 0.1, 0.5, 0.97, 1.0])
def test_probabilities_are_moved_to_an_accuracy(accuracy: float) -> None:
    given, truth, _ = drawn(3)
    predicted = given.argmax(axis=1)
    moved = with_accuracy(truth, predicted, accuracy)
    np.testing.assert_allclose(moved.sum(axis=1), 1)
    assert moved[np.arange(len(moved)), predicted].mean() == pytest.approx(accuracy, abs=1e-6)


def test_intervals_are_between_the_ends_of_that_of_the_accuracy() -> None:
    given, truth, _ = drawn(3)
    estimate = expected_performance(given, truth, Diagnosis(0.6, 0.8, reach=(0.1, 0.1)), ("a", "b", "c"))
    assert estimate.metrics["accuracy"].value == pytest.approx(0.6)
    assert (estimate.metrics["accuracy"].low, estimate.metrics["accuracy"].high) == pytest.approx((0.5, 0.7))
    for metric in estimate.metrics.values():
        assert metric.low is not None
        assert metric.high is not None
        assert metric.low <= metric.value <= metric.high
    assert estimate.as_plain()["metrics"]["accuracy"]["value"] == pytest.approx(0.6)
    alone = expected_performance(given, truth, Diagnosis(0.6, 0.8), ("a", "b", "c"))
    assert alone.metrics["accuracy"].low is None
    assert str(alone.metrics["accuracy"]) == "0.6000"


def test_of_one_class_alone_there_is_no_auroc() -> None:
    row = np.array([[0.01, 0.99]])
    found = expected_performance(row, row, Diagnosis(0.99, 0.99, reach=(0.5, 0.5)), ("a", "b"))
    assert "auroc" not in found.metrics
    assert found.metrics["accuracy"].value == pytest.approx(0.99)


def test_an_interval_holds_what_is_expected_though_a_metric_does_not_grow_with_the_accuracy() -> None:
    """Rows of the rare class are found the better the fewer there are, and again where nearly all rows are."""
    generator = np.random.default_rng(0)
    rare = generator.beta(1, 8, 500)
    given = np.stack([1 - rare, rare], axis=1)
    for accuracy in (0.3, 0.5, 0.7, 0.9):
        diagnosis = Diagnosis(accuracy, 0.9, reach=(0.3, 0.1))
        for name, metric in expected_performance(given, given, diagnosis, (0, 1)).metrics.items():
            assert metric.low is not None
            assert metric.high is not None
            assert metric.low <= metric.value <= metric.high, name
