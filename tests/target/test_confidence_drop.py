import numpy as np
import pytest
from scipy import stats

from shiftcal.target.confidence_drop import ConfidenceReference, Spread, mean_drop_p_value


def test_without_skewness_it_is_the_test_of_two_means() -> None:
    found = mean_drop_p_value(-0.05, 100, Spread(400, 0.2, 0.0))
    assert found == pytest.approx(stats.norm.cdf(-0.05 / (0.2 * np.sqrt(1 / 100 + 1 / 400))))


def test_skewed_confidence_does_not_raise_more_alarms_than_stated() -> None:
    rng = np.random.default_rng(0)
    # Exponential: mean 1, deviation 1, skewness 2; its sums are gamma variables, so levels are known exactly.
    means = -rng.gamma(50, size=200_000) / 50
    p_values = np.array([mean_drop_p_value(mean + 1, 50, Spread(10**9, 1.0, -2.0)) for mean in means[:40_000]])
    assert (p_values < 0.01).mean() == pytest.approx(0.01, abs=0.0015)
    plain = stats.norm.cdf((means + 1) * np.sqrt(50))
    assert (plain < 0.01).mean() > 0.015


def test_confidence_is_brought_to_what_it_meant_on_the_reference() -> None:
    confidence = np.repeat([0.6, 0.9], 100)
    right = np.r_[np.arange(100) < 50, np.arange(100) < 80]
    reference = ConfidenceReference(confidence, right)
    np.testing.assert_allclose(reference.calibrated(np.array([0.6, 0.9, 0.99])), [0.5, 0.8, 0.8])
    assert reference.mean == pytest.approx(0.65)
    assert reference.drop_p_value(0.65, 50) == pytest.approx(0.5, abs=0.01)
    assert reference.drop_p_value(0.50, 200) < 1e-6


def test_a_model_that_is_always_as_sure_has_no_drop() -> None:
    reference = ConfidenceReference(np.ones(20), np.ones(20, dtype=bool))
    assert reference.drop_p_value(reference.mean, 5) == 1
