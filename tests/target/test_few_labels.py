import numpy as np
import pytest
from scipy import stats

from shiftcal.core.errors import InvalidInputError
from shiftcal.target.few_labels import LabelPlan, inclusion_probabilities, plan_labels


def made(right_probability: np.ndarray, seed: int = 0) -> LabelPlan:
    return plan_labels(np.ones(len(right_probability), dtype=int), right_probability, seed)


def test_chances_are_in_proportion_and_at_most_one() -> None:
    np.testing.assert_allclose(inclusion_probabilities(np.array([1.0, 2.0, 3.0, 4.0]), 2), [0.2, 0.4, 0.6, 0.8])
    # The last is sure to be labelled; the others share what is left.
    np.testing.assert_allclose(inclusion_probabilities(np.array([1.0, 1.0, 2.0, 20.0]), 3), [0.5, 0.5, 1, 1])
    np.testing.assert_allclose(inclusion_probabilities(np.array([1.0, 5.0]), 2), [1, 1])


def test_rows_in_doubt_come_first_and_each_as_often_as_stated() -> None:
    probability = np.repeat([0.5, 0.9, 0.999], 20)
    chances = inclusion_probabilities(made(probability).sizes, 15)
    counts = np.zeros(60)
    for seed in range(1_000):
        counts[made(probability, seed).order[:15]] += 1
    np.testing.assert_allclose(counts.reshape(3, 20).mean(axis=1) / 1_000, chances[::20], atol=0.015)
    assert chances[0] > 1.5 * chances[20] > 3 * chances[40] / 2


def test_with_equal_chances_it_is_the_share_of_right_ones() -> None:
    plan = made(np.full(1_000, 0.8))
    labels = [1] * 30 + [0] * 10
    found = plan.estimate(labels)
    assert found.accuracy == pytest.approx(0.75)
    assert (found.num_labels, found.num_rows) == (40, 1_000)
    # Wilson's interval with Student's quantile and the correction for a finite population, unless the variance that
    # the sample shows is larger, as here by its own error.
    quantile = stats.t.ppf(0.95, 39)
    variance = (1 - 0.04) * 0.75 * 0.25 / 39
    assert found.high - found.low == pytest.approx(2 * quantile * np.sqrt(variance), rel=0.15)
    assert found.low < 0.75 < found.high


def test_without_a_single_error_there_is_an_interval() -> None:
    found = made(np.full(1_000, 0.95)).estimate([1] * 30)
    assert found.accuracy == pytest.approx(1.0)
    assert found.high == 1
    assert 0.85 < found.low < 0.95


def test_labels_of_all_rows_leave_no_doubt() -> None:
    plan = made(np.linspace(0.5, 0.99, 50))
    labels = [1] * 40 + [0] * 10
    found = plan.estimate(labels)
    assert (found.accuracy, found.low, found.high) == pytest.approx((0.8, 0.8, 0.8), abs=1e-6)


@pytest.mark.parametrize("too_sure", [0.0, 0.15])
def test_the_interval_holds_the_truth_and_is_not_biased(too_sure: float) -> None:
    rng = np.random.default_rng(0)
    stated = 0.5 + 0.5 * rng.beta(6, 0.6, 500)
    held, errors = [], []
    for seed in range(80):
        right = rng.random(500) < stated - too_sure
        plan = made(stated, seed)
        found = plan.estimate(right[plan.order[:60]].astype(int).tolist())
        held.append(found.low <= right.mean() <= found.high)
        errors.append(found.accuracy - right.mean())
    # Three standard errors of so few trials; benchmarks/monitoring/few_labels.py has more.
    assert np.mean(held) > 0.9 - 3 * np.sqrt(0.9 * 0.1 / 80)
    assert abs(np.mean(errors)) < 3 * np.std(errors) / np.sqrt(80)


def test_the_sentence_and_what_is_refused() -> None:
    plan = made(np.full(100, 0.8))
    assert "% interval: " in str(plan.estimate([1, 0, 1]))
    with pytest.raises(InvalidInputError, match="expected from 2 to 100, got 1"):
        plan.estimate([1])
    with pytest.raises(InvalidInputError, match="level: expected a number between 0 and 1, got 90"):
        plan.estimate([1, 0], level=90)
