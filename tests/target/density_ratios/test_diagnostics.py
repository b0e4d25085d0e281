import math

import numpy as np
import pytest

from shiftcal.metrics.checks import FloatArray
from shiftcal.target.density_ratios import density_ratio_estimator
from shiftcal.target.density_ratios.diagnostics import diagnose, effective_sample_share


def test_effective_sample_share_of_known_weights() -> None:
    assert effective_sample_share(np.zeros(7)) == 1.0
    assert effective_sample_share(np.log([3.0, 1.0])) == pytest.approx(16 / 10 / 2)
    assert effective_sample_share(np.array([0.0, -2000.0, -2000.0, -2000.0])) == 0.25
    assert effective_sample_share(np.array([5000.0, 5000.0])) == 1.0


def test_figures_of_a_small_case() -> None:
    source, target = np.log([4.0, 1.0, 0.5, 2.0]), np.log([0.25, 2.0])
    unclipped = np.append(source[0] + 1, source[1:])
    report = diagnose(unclipped, target, bound=4.0, seed=0)
    assert (report.num_source, report.num_target) == (4, 2)
    assert report.domain_accuracy == pytest.approx((2.5 / 4 + 1 / 2) / 2)
    weights = np.array([0.25, 1.0, 2.0, 0.5])
    assert report.effective_sample_share == pytest.approx(weights.sum() ** 2 / (weights**2).sum() / 4)
    assert report.share_at_bound == pytest.approx((1 / 4 + 1 / 2) / 2)
    assert report.share_extreme == 0
    assert report.source_log_ratio.minimum == pytest.approx(math.log(0.5))
    assert report.source_log_ratio.maximum == pytest.approx(math.log(4))
    assert report.target_log_ratio.median == pytest.approx(np.median(target))


def test_calibration_error_of_true_ratios_is_small_whatever_the_sizes() -> None:
    """N(0, 1) against N(1, 1): the true ratio is calibrated, three times its logarithm is not."""
    generator = np.random.default_rng(0)
    source, target = 0.5 - generator.normal(size=20_000), 0.5 - generator.normal(loc=1, size=3_000)
    true, exaggerated = (diagnose(c * source, c * target, bound=1e9, seed=0) for c in (1, 3))
    assert true.domain_calibration_error < 0.03
    assert exaggerated.domain_calibration_error > 0.1
    assert true.domain_accuracy == pytest.approx(0.6915, abs=0.01)
    assert true.effective_sample_share == pytest.approx(math.exp(-1), abs=0.05)
    assert true.verdict.startswith("overlapping")
    assert true.verdict.endswith("can be used")
    assert "too extreme or too mild" in exaggerated.verdict


def test_verdict_does_not_trust_extreme_ratios_that_were_clipped() -> None:
    source = np.concatenate([np.full(80, 9.0), np.full(20, -0.1)])
    report = diagnose(source, -source, bound=3.0, seed=0)
    assert (report.domain_accuracy, report.share_extreme) == (0.8, 0.8)
    assert report.verdict.startswith("nearly separable")


def test_verdict_names_a_few_heavy_weights() -> None:
    source = np.concatenate([np.full(300, 0.4), np.full(200, -0.4), [-6.0]])
    report = diagnose(source, -source, bound=1000.0, seed=0)
    assert report.effective_sample_share < 0.05
    assert "outweigh all others" in report.verdict


def test_diagnostics_are_from_held_out_rows(shifted: tuple[FloatArray, FloatArray]) -> None:
    """In 100 dimensions without a shift a regression overfits: seen rows are told apart, held-out ones are not."""
    generator = np.random.default_rng(0)
    source, target = generator.normal(size=(150, 100)), generator.normal(size=(150, 100))
    ratio = density_ratio_estimator("logistic", {"penalty": 1e-4}).fit(source, target)
    assert (ratio.predict(source) > 1).mean() > 0.75
    assert 0.35 < ratio.diagnostics.domain_accuracy < 0.65
    assert "too extreme" in ratio.diagnostics.verdict
    overlapping = density_ratio_estimator("logistic").fit(*shifted).diagnostics
    assert overlapping.domain_accuracy == pytest.approx(0.69, abs=0.05)
    assert overlapping.domain_calibration_error < 0.1
