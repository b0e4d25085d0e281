import numpy as np
import pytest
import torch
from scipy.special import softmax

from shiftcal.functional.adaptive_thresholds import (
    NO_LABEL,
    curriculum_thresholds,
    fairness_loss,
    self_adaptive_thresholds,
)


@pytest.mark.parametrize(
    ("row_labels", "expected"),
    [
        # Nobody was sure yet: everybody has a part.
        ([NO_LABEL] * 6, [0, 0, 0]),
        # Warm-up: 3 rows are not sure yet, and more than of any class.
        ([0, 0, 1, NO_LABEL, NO_LABEL, NO_LABEL], [0.9 * (2 / 3) / (4 / 3), 0.9 * (1 / 3) / (5 / 3), 0]),
        # After it, the class that is learned best has the full threshold.
        ([0, 0, 0, 0, 1, 1, NO_LABEL], [0.9, 0.9 * 0.5 / 1.5, 0]),
    ],
)
def test_curriculum_by_hand(row_labels: list[int], expected: list[float]) -> None:
    found = curriculum_thresholds(torch.tensor(row_labels), 3, 0.9)
    assert found.tolist() == pytest.approx(expected)


def test_the_commonest_class_has_the_mean_confidence_as_its_threshold() -> None:
    thresholds = self_adaptive_thresholds(torch.tensor(0.8), torch.tensor([0.2, 0.5, 0.3]))
    assert thresholds.tolist() == pytest.approx([0.32, 0.8, 0.48])


def test_fairness_against_numpy_and_without_classes_that_are_not_predicted() -> None:
    generator = np.random.default_rng(0)
    logits = generator.normal(size=(9, 4))
    logits[:, 3] = -5
    kept = np.array([True, True, False] * 3)
    means, shares = np.array([0.4, 0.3, 0.2, 0.1]), np.array([0.25, 0.25, 0.3, 0.2])

    probabilities = softmax(logits[kept], axis=1)
    counts = np.bincount(probabilities.argmax(axis=1), minlength=4)
    assert counts[:3].all()
    assert counts[3] == 0
    past, now = means / shares, probabilities.mean(axis=0)[:3] / (counts[:3] / 6)
    expected = (past / past.sum())[:3] @ np.log(now / now.sum())
    tensors = (torch.from_numpy(values) for values in (logits, kept, means, shares))
    assert fairness_loss(*tensors).item() == pytest.approx(expected)


def test_fairness_of_nothing_is_zero() -> None:
    uniform = torch.full((3,), 1 / 3)
    assert fairness_loss(torch.randn(4, 3), torch.zeros(4, dtype=torch.bool), uniform, uniform).item() == 0
