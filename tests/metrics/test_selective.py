from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from shiftcal.metrics import area_under_risk_coverage, error_detection_auroc, risk_coverage_curve
from shiftcal.metrics.selective import harmonic_difference

Predictions = tuple[NDArray[np.float64], NDArray[np.int64]]


def area_by_loops(trust: list[float], wrong: list[bool]) -> float:
    """Each sample of a tie counts with the tie's mean error."""
    groups: dict[float, list[bool]] = {}
    for score, error in zip(trust, wrong, strict=True):
        groups.setdefault(score, []).append(error)
    errors, answered, risks = 0.0, 0, []
    for score in sorted(groups, reverse=True):
        rate = sum(groups[score]) / len(groups[score])
        for _ in groups[score]:
            errors, answered = errors + rate, answered + 1
            risks.append(errors / answered)
    return sum(risks) / len(risks)


def auroc_by_loops(trust: list[float], wrong: list[bool]) -> float:
    right = [score for score, error in zip(trust, wrong, strict=True) if not error]
    failed = [score for score, error in zip(trust, wrong, strict=True) if error]
    wins = sum((a > b) + 0.5 * (a == b) for a, b in itertools.product(right, failed))
    return wins / (len(right) * len(failed)) if right and failed else math.nan


def trust_and_errors(probabilities: NDArray[np.float64], labels: NDArray[np.int64]) -> tuple[list[float], list[bool]]:
    return probabilities.max(axis=1).tolist(), (probabilities.argmax(axis=1) != labels).tolist()


def test_area_equals_plain_loops(predictions: Predictions) -> None:
    expected = area_by_loops(*trust_and_errors(*predictions))
    assert area_under_risk_coverage(*predictions) == pytest.approx(expected, abs=1e-12)


def test_curve_equals_plain_loops(predictions: Predictions) -> None:
    trust, wrong = trust_and_errors(*predictions)
    curve = risk_coverage_curve(*predictions)
    thresholds = sorted(set(trust), reverse=True)
    assert len(curve.coverage) == len(curve.risk) == len(thresholds)
    for index, threshold in enumerate(thresholds):
        answered = [error for score, error in zip(trust, wrong, strict=True) if score >= threshold]
        assert curve.coverage[index] == pytest.approx(len(answered) / len(trust), abs=1e-15)
        assert curve.risk[index] == pytest.approx(sum(answered) / len(answered), abs=1e-15)


def test_auroc_equals_plain_loops(predictions: Predictions) -> None:
    expected = auroc_by_loops(*trust_and_errors(*predictions))
    assert error_detection_auroc(*predictions) == pytest.approx(expected, abs=1e-12, nan_ok=True)


@pytest.mark.parametrize("decimals", [1, 2, 16])
def test_auroc_equals_sklearn(decimals: int) -> None:
    rng = np.random.default_rng(decimals)
    probabilities = rng.dirichlet(np.ones(3), 500)
    labels = rng.integers(0, 3, 500)
    scores = rng.normal(size=500).round(decimals)
    correct = probabilities.argmax(axis=1) == labels
    value = error_detection_auroc(probabilities, labels, scores=torch.from_numpy(scores))
    assert value == pytest.approx(roc_auc_score(correct, scores), abs=1e-12)


def test_area_with_ties_is_the_mean_over_all_orders() -> None:
    wrong = [True, False, False, True, True]
    areas = []
    for order in itertools.permutations(wrong):
        risks = [sum(order[: size + 1]) / (size + 1) for size in range(len(order))]
        areas.append(sum(risks) / len(risks))
    value = area_under_risk_coverage(np.tile([1.0, 0.0], (5, 1)), np.array(wrong, dtype=int))
    assert value == pytest.approx(sum(areas) / len(areas), abs=1e-12)


def test_nothing_depends_on_the_order_of_the_samples() -> None:
    rng = np.random.default_rng(0)
    probabilities = rng.multinomial(8, [0.5, 0.3, 0.2], 300) / 8
    labels = rng.integers(0, 3, 300)
    order = rng.permutation(300)
    first, second = (
        risk_coverage_curve(probabilities, labels),
        risk_coverage_curve(probabilities[order], labels[order]),
    )
    np.testing.assert_array_equal(first.coverage, second.coverage)
    np.testing.assert_array_equal(first.risk, second.risk)
    assert first.area == second.area
    assert error_detection_auroc(probabilities, labels) == error_detection_auroc(probabilities[order], labels[order])


def test_other_scores_rank_instead_of_the_confidence() -> None:
    probabilities, labels = np.array([[0.9, 0.1], [0.6, 0.4]]), np.array([1, 0])
    assert area_under_risk_coverage(probabilities, labels) == 0.75
    assert area_under_risk_coverage(probabilities, labels, scores=np.array([-np.inf, 7])) == 0.25
    assert error_detection_auroc(probabilities, labels) == 0
    assert error_detection_auroc(probabilities, labels, scores=np.array([1, 2])) == 1


@pytest.mark.parametrize(("label", "area"), [(0, 0.0), (1, 1.0)])
def test_all_right_or_all_wrong(label: int, area: float) -> None:
    probabilities = np.array([[0.9, 0.1], [0.8, 0.2], [0.8, 0.2]])
    labels = np.full(3, label)
    assert math.isnan(error_detection_auroc(probabilities, labels))
    assert area_under_risk_coverage(probabilities, labels) == pytest.approx(area, abs=1e-15)


def test_harmonic_difference_equals_the_sum() -> None:
    ends = [(0, 1), (0, 10), (3, 4), (5, 5), (7, 1000), (10_000, 10_002), (1, 100_000)]
    expected = [math.fsum(1 / n for n in range(lower + 1, upper + 1)) for lower, upper in ends]
    lower, upper = np.array(ends, dtype=np.float64).T
    np.testing.assert_allclose(harmonic_difference(lower, upper), expected, atol=1e-14)
