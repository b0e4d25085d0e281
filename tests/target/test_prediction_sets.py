import doctest
import math
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

import shiftcal.target.prediction_sets
from shiftcal.core.errors import InvalidInputError, UnknownNameError
from shiftcal.target.prediction_sets import (
    SCORES,
    Score,
    class_scores,
    conformity,
    conformity_scores,
    prediction_sets,
    weighted_threshold,
)

FloatArray = NDArray[np.float64]


def softmax(logits: FloatArray) -> FloatArray:
    exponentials = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(exponentials / exponentials.sum(axis=1, keepdims=True))


def random_probabilities(num_rows: int, num_classes: int = 5, *, seed: int = 0) -> FloatArray:
    return softmax(2 * np.random.default_rng(seed).normal(size=(num_rows, num_classes)))


def test_module_examples() -> None:
    assert doctest.testmod(shiftcal.target.prediction_sets).failed == 0


def test_scores_by_hand() -> None:
    probabilities, labels = np.array([[0.2, 0.5, 0.3]] * 3), np.array([0, 1, 2])
    np.testing.assert_allclose(conformity_scores(probabilities, labels), [1.0, 0.5, 0.8])
    np.testing.assert_allclose(conformity_scores(probabilities, labels, "lac"), [0.8, 0.5, 0.7])
    randomised = conformity_scores(probabilities, labels, uniform=np.array([1.0, 0.5, 0.0]))
    np.testing.assert_allclose(randomised, [0.8, 0.25, 0.8])


def test_of_equally_likely_classes_the_first_comes_first() -> None:
    np.testing.assert_allclose(class_scores(np.array([[0.25, 0.5, 0.25]])), [[0.75, 0.5, 1.0]])


def test_randomised_aps_is_uniform_for_a_true_model() -> None:
    """Romano et al. 2020: with the true probabilities the randomised score is uniform on [0, 1]."""
    generator = np.random.default_rng(0)
    probabilities = random_probabilities(20_000)
    labels = (probabilities.cumsum(axis=1) < generator.random((20_000, 1))).sum(axis=1).clip(max=4)
    scores = np.sort(conformity_scores(probabilities, labels, uniform=generator.random(20_000)))
    assert np.abs(scores - (np.arange(20_000) + 0.5) / 20_000).max() < 0.015


@pytest.mark.parametrize("num_scores", [1, 9, 20, 99])
@pytest.mark.parametrize("coverage", [0.05, 0.1, 0.55, 0.7, 0.9, 0.95, 0.99, 1.0])
def test_equal_weights_are_ordinary_split_conformal(num_scores: int, coverage: float) -> None:
    scores = np.random.default_rng(0).random(num_scores)
    # Exact arithmetic, as 0.55 * 100 is 55.00000000000001 in floating point.
    rank = -(-round(coverage * 100) * (num_scores + 1) // 100)
    expected = np.sort(scores)[rank - 1] if rank <= num_scores else math.inf
    for weight in (1.0, 1e-3, 7.0):
        threshold = weighted_threshold(scores, np.full(num_scores, weight), weight, coverage)
        assert threshold.shape == ()
        assert float(threshold) == expected


def test_threshold_is_the_weighted_quantile_by_definition() -> None:
    generator = np.random.default_rng(1)
    scores = generator.integers(6, size=25) / 5  # with ties
    weights, test_weights = generator.exponential(size=25), generator.exponential(size=12) * 8
    for coverage in (0.01, 0.3, 0.62, 0.9):
        expected = []
        for test_weight in test_weights:
            candidates = [
                value
                for value in sorted(scores)
                if weights[scores <= value].sum() / (weights.sum() + test_weight) >= coverage
            ]
            expected.append(candidates[0] if candidates else math.inf)
        np.testing.assert_array_equal(weighted_threshold(scores, weights, test_weights, coverage), expected)


def test_scale_of_all_weights_does_not_matter_and_rows_without_weight_do_not_count() -> None:
    generator = np.random.default_rng(0)
    scores, weights, test_weights = generator.random(50), generator.random(50), generator.random(9)
    plain = weighted_threshold(scores, weights, test_weights, 0.8)
    np.testing.assert_array_equal(weighted_threshold(scores, 1e6 * weights, 1e6 * test_weights, 0.8), plain)
    more = weighted_threshold(np.append(scores, -1.0), np.append(weights, 0.0), test_weights, 0.8)
    np.testing.assert_array_equal(more, plain)


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("randomised", [False, True])
def test_sets_are_never_empty_grow_with_coverage_and_are_full_at_one(score: Score, randomised: bool) -> None:
    if score == "lac" and randomised:
        return
    generator = np.random.default_rng(0)
    calibration, test = random_probabilities(200, seed=1), random_probabilities(300, seed=2)
    labels = generator.integers(5, size=200)
    uniform = (generator.random(200), generator.random(300)) if randomised else (None, None)
    scores = conformity_scores(calibration, labels, score, uniform=uniform[0])
    weights, test_weights = generator.exponential(size=200), generator.exponential(size=300)
    before = np.zeros((300, 5), dtype=bool)
    for coverage in (1e-9, 0.01, 0.2, 0.5, 0.8, 0.95, 0.999, 1.0):
        sets = prediction_sets(test, test_weights, scores, weights, coverage, score, uniform=uniform[1])
        assert sets.shape == (300, 5)
        assert sets.dtype == bool
        assert sets[np.arange(300), test.argmax(axis=1)].all()
        assert (sets >= before).all()
        before = sets
    assert before.all()


def test_coverage_of_one_gives_everything_even_without_mass_of_the_test_row() -> None:
    sets = prediction_sets(random_probabilities(4), np.zeros(4), np.full(9, 0.1), np.ones(9), 1.0)
    assert sets.all()


class CovariateShift:
    """x from N(0, 1) in the source and from N(1.5, 0.7) in the target; six classes, harder to the right.

    The model is as sure everywhere, so it errs more often on the target than its probabilities say.
    """

    num_classes = 6

    def draw(self, num_rows: int, generator: np.random.Generator, *, target: bool) -> tuple[FloatArray, NDArray[Any]]:
        x = 1.5 + 0.7 * generator.normal(size=num_rows) if target else generator.normal(size=num_rows)
        truth = generator.integers(self.num_classes, size=num_rows)
        noise = np.exp(0.6 * x)[:, None] * generator.normal(size=(num_rows, self.num_classes))
        logits = 2.5 * np.eye(self.num_classes)[truth] + noise
        return np.column_stack([x, softmax(1.5 * logits / np.abs(logits).max(axis=1, keepdims=True))]), truth

    def weights(self, x: FloatArray) -> FloatArray:
        """P_target / P_source."""
        return np.asarray(np.exp(x**2 / 2 - (x - 1.5) ** 2 / (2 * 0.7**2)) / 0.7)

    def coverage(self, score: Score, *, weighted: bool, randomised: bool) -> tuple[float, float]:
        """Mean share of target rows whose set holds the truth, and its standard error, over calibration draws."""
        shares = []
        for seed in range(120):
            generator = np.random.default_rng(seed)
            (calibration, labels), (test, truth) = (
                self.draw(size, generator, target=target) for size, target in ((1000, False), (250, True))
            )
            uniform = (generator.random(1000), generator.random(250)) if randomised else (None, None)
            weights = [self.weights(rows[:, 0]) if weighted else np.ones(len(rows)) for rows in (calibration, test)]
            scores = conformity_scores(calibration[:, 1:], labels, score, uniform=uniform[0])
            sets = prediction_sets(test[:, 1:], weights[1], scores, weights[0], 0.9, score, uniform=uniform[1])
            shares.append(sets[np.arange(250), truth].mean())
        return float(np.mean(shares)), float(np.std(shares) / math.sqrt(len(shares)))


@pytest.mark.parametrize(("score", "randomised"), [("lac", False), ("aps", False), ("aps", True)])
def test_true_weights_give_the_nominal_coverage_on_the_target(score: Score, randomised: bool) -> None:
    world = CovariateShift()
    share, error = world.coverage(score, weighted=True, randomised=randomised)
    assert 0.9 - 3 * error <= share <= 0.92 + 3 * error
    plain, plain_error = world.coverage(score, weighted=False, randomised=randomised)
    assert plain < 0.9 - 5 * plain_error
    assert plain < 0.87


def test_tensors_in_give_tensors_out() -> None:
    probabilities, labels = random_probabilities(30), np.arange(30) % 5
    weights, test_weights = np.linspace(0.5, 2, 30), np.linspace(0.5, 2, 7)
    scores = conformity_scores(probabilities, labels)
    torch_scores = conformity_scores(torch.from_numpy(probabilities).requires_grad_(), torch.from_numpy(labels))
    assert isinstance(torch_scores, torch.Tensor)
    np.testing.assert_array_equal(torch_scores.numpy(), scores)
    thresholds = weighted_threshold(torch_scores, torch.from_numpy(weights), torch.from_numpy(test_weights), 0.8)
    assert isinstance(thresholds, torch.Tensor)
    np.testing.assert_array_equal(thresholds.numpy(), weighted_threshold(scores, weights, test_weights, 0.8))
    sets = prediction_sets(torch.from_numpy(probabilities[:7]), test_weights, torch_scores, weights, 0.8)
    assert isinstance(sets, torch.Tensor)
    assert sets.dtype == torch.bool
    np.testing.assert_array_equal(
        sets.numpy(), prediction_sets(probabilities[:7], test_weights, scores, weights, 0.8)
    )


def test_one_weight_for_all_test_rows() -> None:
    probabilities, scores = random_probabilities(6), np.linspace(0, 1, 20)
    one = prediction_sets(probabilities, 2.0, scores, np.ones(20), 0.7)
    np.testing.assert_array_equal(one, prediction_sets(probabilities, np.full(6, 2.0), scores, np.ones(20), 0.7))


class TestTwoWitnesses:
    """`conformity`: held-out source rows, and what the probabilities of the target's rows lead one to expect."""

    def test_calibrated_probabilities_give_the_nominal_coverage_with_useless_weights(self) -> None:
        generator = np.random.default_rng(0)
        target = torch.from_numpy(softmax(2 * generator.normal(size=(20_000, 6))))
        labels = (target.cumsum(dim=1) < torch.from_numpy(generator.random((20_000, 1)))).sum(dim=1)
        held_out = torch.eye(6, dtype=torch.float64)
        # Held-out rows on which the model is sure and right, one of which carries all the weight; and test rows
        # that are heavier still, for which there is no threshold at all.
        weights = torch.tensor([1.0] + 5 * [1e-9])
        found = conformity(held_out, torch.arange(6), weights, target)
        for coverage in (0.5, 0.8, 0.9, 0.99):
            for test_weight in (1e-9, 1e9):
                sets = found.sets(target, test_weight, coverage)
                # The most likely class is always in: 0.5 can't be met from above more closely than accuracy allows.
                accuracy = float((target.argmax(dim=1) == labels).double().mean())
                share = float(sets[torch.arange(20_000), labels].double().mean())
                assert share == pytest.approx(max(coverage, accuracy), abs=0.02)

    @pytest.mark.parametrize("target", [torch.zeros(0, 5), torch.full((3, 5), torch.nan)])
    def test_a_target_without_rows_or_numbers_is_refused(self, target: torch.Tensor) -> None:
        with pytest.raises(InvalidInputError, match="target must"):
            conformity(torch.eye(5), torch.arange(5), torch.ones(5), target)

    def test_held_out_rows_can_only_make_sets_larger(self) -> None:
        sure = torch.tensor([[0.98, 0.01, 0.01]]).double().expand(50, 3)
        wrong_at_times = torch.tensor(([0] * 4 + [1]) * 10)
        alone = conformity(sure, wrong_at_times, torch.ones(50))
        both = conformity(sure, wrong_at_times, torch.ones(50), sure)
        assert alone.expected is None
        assert both.sets(sure[:1], 1.0, 0.9).tolist() == alone.sets(sure[:1], 1.0, 0.9).tolist() == [[True] * 3]

    def test_a_rule_for_batches_gives_the_sets_of_all_rows(self) -> None:
        rows = torch.from_numpy(random_probabilities(60))
        found = conformity(rows, rows.argmax(dim=1), torch.linspace(0.1, 3, 60), rows)
        weights, rule = torch.logspace(-2, 2, 60), found.rule(0.8)
        parts = [rule(*part) for part in zip(torch.split(rows, 25), torch.split(weights, 25), strict=True)]
        assert torch.equal(torch.cat(parts), found.sets(rows, weights, 0.8))

    def test_expected_thresholds_are_the_quantiles_by_definition(self) -> None:
        target = random_probabilities(40)
        expected = conformity(torch.eye(5), torch.arange(5), torch.ones(5), torch.from_numpy(target)).expected
        assert expected is not None
        for coverage in (0.013, 0.5, 0.9):
            threshold = float(expected[round(1000 * coverage)])
            inside, below = target >= 1 - threshold - 1e-12, target > 1 - threshold + 1e-12
            assert (target * inside).sum() >= 40 * coverage - 1e-9
            assert (target * below).sum() < 40 * coverage


PROBABILITIES, LABELS = random_probabilities(4), np.array([0, 1, 2, 3])


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"labels": np.array([0, 1, 2])}, r"labels must be integers of shape \(4,\).*\(3,\)"),
        ({"labels": np.zeros(4)}, "labels must be integers"),
        ({"labels": np.array([0, 1, 2, 5])}, r"labels must lie in \[0, 5\). Got values from 0 to 5"),
        ({"probabilities": PROBABILITIES[0]}, r"probabilities must have shape \(rows, classes\)"),
        ({"probabilities": np.full((4, 5), np.nan)}, "probabilities must not hold NaN"),
        ({"probabilities": "text"}, "probabilities must be an array of numbers"),
        ({"uniform": np.ones(3)}, r"uniform must hold numbers in \[0, 1\] of shape \(4,\)"),
        ({"uniform": np.full(4, 1.5)}, "uniform must hold numbers in"),
        ({"uniform": np.ones(4), "score": "lac"}, "uniform belongs to the score 'aps'"),
    ],
)
def test_wrong_input_of_scores(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        conformity_scores(**{"probabilities": PROBABILITIES, "labels": LABELS} | changed)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"coverage": 0.0}, "coverage must be above 0 and at most 1. Got 0.0"),
        ({"coverage": 1.1}, "coverage must be above 0 and at most 1"),
        ({"coverage": math.nan}, "coverage must be above 0 and at most 1"),
        ({"calibration_weights": np.ones(4)}, r"calibration_weights must have shape \(3,\)"),
        ({"calibration_weights": -np.ones(3)}, "calibration_weights must be finite numbers of at least 0"),
        ({"test_weight": np.array([np.inf])}, "test_weight must be finite numbers"),
        ({"test_weight": np.ones((2, 2))}, "test_weight must be finite numbers"),
        ({"test_weight": np.array([])}, "test_weight must have shape"),
        ({"scores": np.array([])}, r"scores must have shape \(rows,\)"),
        ({"calibration_weights": np.zeros(3), "test_weight": 0.0}, "must not all be 0"),
    ],
)
def test_wrong_input_of_thresholds(changed: dict[str, Any], message: str) -> None:
    plain: dict[str, Any] = {
        "scores": np.ones(3),
        "calibration_weights": np.ones(3),
        "test_weight": 1.0,
        "coverage": 0.9,
    }
    with pytest.raises(InvalidInputError, match=message):
        weighted_threshold(**plain | changed)


def test_wrong_input_of_sets() -> None:
    with pytest.raises(InvalidInputError, match=r"test_weights must have shape \(4,\).*\(3,\)"):
        prediction_sets(PROBABILITIES, np.ones(3), np.ones(9), np.ones(9), 0.9)
    with pytest.raises(UnknownNameError, match=r"unknown score 'asp'\. Did you mean 'aps'"):
        prediction_sets(PROBABILITIES, np.ones(4), np.ones(9), np.ones(9), 0.9, "asp")  # type: ignore[arg-type]
