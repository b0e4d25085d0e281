import math
from typing import get_args

import numpy as np
import pytest
import torch
from scipy.optimize import minimize

from shiftcal.functional.self_training import (
    ModelRegularizer,
    angular_hardness,
    class_thresholds,
    entropy_regularized_labels,
    fair_thresholds,
    growing_portion,
    highest,
    model_regularizer,
    normalized_confidence,
    select_class_balanced,
    select_easiest,
)


def random_probabilities(num_rows: int = 200, num_classes: int = 5, seed: int = 0) -> torch.Tensor:
    generator = np.random.default_rng(seed)
    # Unequal concentrations: some classes are predicted far more often than others.
    return torch.from_numpy(generator.dirichlet(np.linspace(0.2, 1.0, num_classes), num_rows))


def portion_at(epoch: int, num_epochs: int, warmup_share: float = 0.3) -> float | None:
    return growing_portion(epoch, num_epochs, warmup_share=warmup_share, first_portion=0.2, last_portion=0.5)


class TestGrowingPortion:
    def test_is_none_in_the_warm_up_and_grows_evenly_after_it(self) -> None:
        portions = [portion_at(epoch, 10) for epoch in range(10)]
        assert portions[:3] == [None, None, None]
        assert portions[3:] == pytest.approx(np.linspace(0.2, 0.5, 7).tolist())

    def test_there_is_always_a_first_epoch_on_the_source(self) -> None:
        assert [portion_at(epoch, 2) for epoch in range(2)] == [None, 0.2]
        assert portion_at(0, 1) is None


def test_highest_are_the_first_of_the_order_and_at_least_one() -> None:
    scores = torch.tensor([0.1, 0.9, 0.5, 0.7])
    assert highest(scores, 0.5).tolist() == [1, 3]
    assert highest(scores, 0.01).tolist() == [1]
    assert highest(scores, 1.0).tolist() == [1, 3, 2, 0]


class TestClassBalancedSelection:
    @pytest.mark.parametrize("portion", [0.05, 0.2, 0.5, 1.0])
    def test_is_that_of_a_slow_loop(self, portion: float) -> None:
        probabilities = random_probabilities()
        predicted: dict[int, list[float]] = {}
        for row in probabilities.tolist():
            predicted.setdefault(row.index(max(row)), []).append(max(row))
        thresholds = {}
        for label, confidences in predicted.items():
            ranked = sorted(confidences, reverse=True)
            thresholds[label] = ranked[max(1, round(portion * len(ranked))) - 1]
        expected = []
        for number, row in enumerate(probabilities.tolist()):
            relative = {label: row[label] / threshold for label, threshold in thresholds.items()}
            best = max(relative, key=lambda label: relative[label])
            if relative[best] >= 1:
                expected.append((number, best))
        rows, labels = select_class_balanced(probabilities, portion)
        assert list(zip(rows.tolist(), labels.tolist(), strict=True)) == expected

    def test_takes_the_portion_of_each_class_whatever_its_size_and_confidence(self) -> None:
        """40 rows are surely of the first class, 10 unsurely of the second, none near the other's threshold."""
        sure = torch.linspace(0.8, 0.99, 40, dtype=torch.float64)
        unsure = torch.linspace(0.51, 0.6, 10, dtype=torch.float64)
        first = torch.cat([sure, 1 - unsure])
        rows, labels = select_class_balanced(torch.stack([first, 1 - first], dim=1), 0.2)
        assert rows.tolist() == [*range(32, 40), 48, 49]
        assert torch.bincount(labels).tolist() == [8, 2]

    def test_a_row_may_get_the_label_of_a_class_that_is_predicted_less_surely(self) -> None:
        """p_c / exp(-k_c) of the last row: 0.5 / 0.9 for the first class, 0.45 / 0.45 for the second."""
        probabilities = torch.tensor([[0.9, 0.05, 0.05], [0.3, 0.4, 0.3], [0.3, 0.45, 0.25], [0.5, 0.45, 0.05]])
        rows, labels = select_class_balanced(probabilities.double(), 0.5)
        assert rows.tolist() == [0, 2, 3]
        assert labels.tolist() == [0, 1, 1]

    def test_a_class_that_is_never_predicted_is_never_a_label(self) -> None:
        probabilities = torch.tensor([[0.6, 0.4, 0.0], [0.7, 0.3, 0.0]])
        assert select_class_balanced(probabilities, 1.0).labels.tolist() == [0, 0]
        assert class_thresholds(torch.tensor([0.6]), torch.tensor([1]), 3, 1.0).tolist() == pytest.approx(
            [math.inf, 0.6, math.inf]
        )


def test_the_easiest_of_each_class_are_selected_as_predicted() -> None:
    scores = -torch.tensor([0.1, 0.4, 0.2, 0.3, 0.9, 0.8])
    predicted = torch.tensor([0, 0, 0, 0, 2, 2])
    rows, labels = select_easiest(scores, predicted, 3, 0.5)
    assert rows.tolist() == [0, 2, 5]
    assert labels.tolist() == [0, 0, 2]


class TestSoftLabels:
    @pytest.mark.parametrize("weight", [0.25, 1.0, 3.0])
    def test_minimise_the_objective(self, weight: float) -> None:
        """Against scipy, over logits of the distribution, so that it stays one.

        Confidences are within a factor of five: at a label of nearly 0 the objective is too flat for a minimiser.
        """
        normalized = torch.from_numpy(np.random.default_rng(0).uniform(0.3, 1.5, (6, 3)))
        labels = entropy_regularized_labels(normalized, weight)
        for row, label in zip(normalized.numpy(), labels.numpy(), strict=True):

            def objective(logits: np.ndarray, row: np.ndarray = row) -> float:
                shifted = np.exp(logits - logits.max())
                q = shifted / shifted.sum()
                return float(-(q * np.log(row)).sum() + weight * (q * np.log(q)).sum())

            found = minimize(objective, np.zeros(3), method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-13})
            expected = np.exp(found.x - found.x.max())
            np.testing.assert_allclose(label, expected / expected.sum(), atol=1e-5)
            assert objective(np.log(label)) <= found.fun + 1e-12

    def test_become_one_hot_as_the_weight_falls(self) -> None:
        labels = entropy_regularized_labels(torch.tensor([[1.2, 1.0, 0.0]]), 1e-3)
        torch.testing.assert_close(labels, torch.tensor([[1.0, 0.0, 0.0]]))

    def test_are_distributions(self) -> None:
        normalized = normalized_confidence(random_probabilities(), 0.3)
        torch.testing.assert_close(entropy_regularized_labels(normalized, 0.25).sum(dim=1), torch.ones(200).double())


class TestModelRegularizers:
    def test_by_hand(self) -> None:
        logits = torch.tensor([[0.7, 0.2, 0.1]], dtype=torch.float64).log() + 5
        expected = {
            "mrkld": -(math.log(0.7) + math.log(0.2) + math.log(0.1)) / 3,
            "mrent": 0.7 * math.log(0.7) + 0.2 * math.log(0.2) + 0.1 * math.log(0.1),
            "mrl2": 0.49 + 0.04 + 0.01,
        }
        for name in get_args(ModelRegularizer):
            assert model_regularizer(logits, name).item() == pytest.approx(expected[name])

    @pytest.mark.parametrize("name", get_args(ModelRegularizer))
    def test_are_smallest_for_the_uniform_prediction(self, name: ModelRegularizer) -> None:
        logits = torch.zeros(1, 4, dtype=torch.float64, requires_grad=True)
        at_uniform = model_regularizer(logits, name)
        (slope,) = torch.autograd.grad(at_uniform.sum(), logits)
        torch.testing.assert_close(slope, torch.zeros_like(slope))
        others = torch.randn(50, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
        assert (model_regularizer(others, name) > at_uniform).all()


class TestAngularHardness:
    def test_by_hand(self) -> None:
        """Angles of 0, 90 and 180 degrees, and of 45, 45 and 135."""
        weights = torch.tensor([[2.0, 0.0], [0.0, 0.5], [-1.0, 0.0]])
        hardness = angular_hardness(torch.tensor([[3.0, 0.0], [1.0, 1.0]]), weights)
        expected = torch.tensor([[0.0, 1 / 3, 2 / 3], [0.2, 0.2, 0.6]])
        torch.testing.assert_close(hardness, expected, atol=1e-3, rtol=0)

    def test_does_not_depend_on_lengths(self) -> None:
        generator = torch.Generator().manual_seed(0)
        features, weights = (torch.randn(count, 6, dtype=torch.float64, generator=generator) for count in (20, 4))
        stretched = angular_hardness(features * torch.arange(1, 21)[:, None], weights * 7)
        torch.testing.assert_close(stretched, angular_hardness(features, weights))


def test_fair_thresholds_leave_no_class_more_than_its_share() -> None:
    """Of 12 rows, 8 are predicted as the first of three classes: a portion of 0.5 leaves each class at most 2."""
    predicted = torch.tensor([0] * 8 + [1] * 3 + [2])
    scores = torch.arange(12.0)
    thresholds = fair_thresholds(scores, predicted, torch.full((4,), 1 / 3), 0.5)
    assert thresholds.tolist() == [6, 9, 11, torch.inf]
    assert (scores >= thresholds[predicted]).nonzero().squeeze(-1).tolist() == [6, 7, 9, 10, 11]
