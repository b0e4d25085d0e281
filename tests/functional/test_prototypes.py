import math

import numpy as np
import pytest
import torch
from scipy.special import softmax
from scipy.stats import entropy
from sklearn.metrics.pairwise import cosine_similarity

from shiftcal.functional.prototypes import (
    early_learning_loss,
    neighbour_entropy,
    prototype_contrast,
    prototype_logits,
)


def values(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).normal(size=shape))


def test_logits_are_cosines_over_the_temperature() -> None:
    features, prototypes = values(6, 4), values(3, 4, seed=1)
    expected = cosine_similarity(features.numpy(), prototypes.numpy()) / 0.07
    np.testing.assert_allclose(prototype_logits(features, prototypes, 0.07).numpy(), expected)


def test_a_prototype_that_is_not_known_yet_is_like_nothing() -> None:
    logits = prototype_logits(values(2, 3), torch.zeros(1, 3, dtype=torch.float64), 0.07)
    assert logits.tolist() == [[0.0], [0.0]]


def test_contrast_by_hand() -> None:
    logits = torch.log(torch.tensor([[0.5, 0.25, 0.25], [0.1, 0.2, 0.7]], dtype=torch.float64))
    loss = prototype_contrast(logits, torch.tensor([0, 1]), torch.tensor([1.0, 0.5]))
    assert loss.item() == pytest.approx((-math.log(0.5) - 0.5 * math.log(0.2)) / 2)


def test_early_learning_by_hand() -> None:
    logits = torch.log(torch.tensor([[0.5, 0.5], [0.9, 0.1]], dtype=torch.float64))
    remembered = torch.tensor([[1.0, 0.0], [0.3, 0.2]], dtype=torch.float64)
    expected = (math.log(1 - 0.5) + math.log(1 - (0.27 + 0.02))) / 2
    assert early_learning_loss(logits, remembered).item() == pytest.approx(expected)


def test_early_learning_pulls_towards_what_is_remembered_and_stays_finite() -> None:
    logits = torch.zeros(1, 2, requires_grad=True)
    (gradient,) = torch.autograd.grad(early_learning_loss(logits, torch.tensor([[0.8, 0.2]])), logits)
    assert gradient[0, 0] < 0 < gradient[0, 1]
    sure = torch.tensor([[100.0, -100.0]])
    assert early_learning_loss(sure, torch.tensor([[1.0, 0.0]])).item() == pytest.approx(math.log(1e-4), rel=1e-3)


def test_neighbour_entropy_against_scipy() -> None:
    features = values(5, 3)
    similarities = cosine_similarity(features.numpy())
    rows = [entropy(softmax(np.delete(similarities[row], row) / 0.05)) for row in range(5)]
    assert neighbour_entropy(features, 0.05).item() == pytest.approx(np.mean(rows))


@pytest.mark.parametrize("num_rows", [0, 1, 2])
def test_without_a_choice_of_neighbours_there_is_no_entropy(num_rows: int) -> None:
    features = torch.ones(num_rows, 3, requires_grad=True)
    assert neighbour_entropy(features, 0.05).item() == 0
