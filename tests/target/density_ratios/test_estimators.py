"""Each estimator against a closed form or an implementation of another kind."""

import doctest

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import log_expit
from scipy.stats import gaussian_kde, multivariate_normal
from sklearn.covariance import LedoitWolf
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import shiftcal.target.density_ratios
from shiftcal.metrics.checks import FloatArray
from shiftcal.target.density_ratios import density_ratio_estimator
from shiftcal.target.density_ratios.folds import fold_numbers
from shiftcal.target.density_ratios.kernel_density import BANDWIDTH_FACTORS, best_factor
from shiftcal.target.density_ratios.kernel_mean_matching import matching_weights
from shiftcal.target.density_ratios.kernels import gaussian_kernel, log_kernel_sum, median_distance, squared_distances
from shiftcal.target.density_ratios.kliep import kliep_weights
from shiftcal.target.density_ratios.logistic import PENALTIES, best_penalty
from shiftcal.target.density_ratios.preparation import Projection, Standardization


def domains(num_rows: int = 60, num_features: int = 2, *, shift: float = 0.7) -> tuple[FloatArray, FloatArray]:
    """Two domains of the same size, standardised together, so that the estimators see these very numbers."""
    generator = np.random.default_rng(0)
    rows = generator.normal(size=(2 * num_rows, num_features))
    rows[num_rows:] += shift
    scaled = StandardScaler().fit_transform(rows)
    return scaled[:num_rows], scaled[num_rows:]


def kernel(rows: FloatArray, centres: FloatArray, width: float) -> FloatArray:
    differences = rows[:, None, :] - centres[None, :, :]
    return np.asarray(np.exp(-(differences**2).sum(axis=2) / (2 * width**2)))


NEW = np.random.default_rng(9).normal(size=(30, 2))


def test_module_example() -> None:
    assert doctest.testmod(shiftcal.target.density_ratios).failed == 0


@pytest.mark.parametrize("penalty", [0.01, 1.0])
def test_logistic_is_sklearns_with_half_of_the_weight_on_each_domain(penalty: float) -> None:
    source, target = domains()
    target = np.concatenate([target, target])  # as many again: neither weights nor the standardisation may change
    labels = np.arange(len(source) + len(target)) < len(source)
    weights = np.where(labels, 1 / len(source), 1 / len(target)) / 2
    reference = LogisticRegression(C=1 / penalty, solver="newton-cholesky", tol=1e-10)
    reference.fit(np.concatenate([source, target]), labels, sample_weight=weights)
    ours = np.log(
        density_ratio_estimator("logistic", {"penalty": penalty * len(labels)}).fit(source, target).predict(NEW)
    )
    np.testing.assert_allclose(ours, reference.decision_function(NEW), atol=1e-3)


def test_logistic_in_pooled_units_is_scikit_learns_pipeline() -> None:
    source, target = domains()
    source = source[:20] * [3.0, 1.0]
    rows, labels = np.concatenate([source, target]), np.arange(20 + len(target)) < 20
    reference = make_pipeline(StandardScaler(), LogisticRegression(C=0.1, class_weight="balanced")).fit(rows, labels)
    expected = reference.decision_function(NEW)
    pooled, plain = (
        np.log(
            density_ratio_estimator("logistic", {"penalty": 10.0, "pooled_units": chosen})
            .fit(source, target)
            .predict(NEW)
        )
        for chosen in (True, False)
    )
    np.testing.assert_allclose(pooled, expected, atol=1e-9)
    assert np.abs(plain - expected).max() > 1e-3


def test_logistic_penalty_has_the_smallest_held_out_loss() -> None:
    source, target = domains(40, 15, shift=0.2)
    rows, is_source = np.concatenate([source, target]), np.arange(80) < 40
    fold = np.tile(np.arange(5), 16)
    losses = []
    for penalty in PENALTIES:
        total = 0.0
        for number in range(5):
            train, held = fold != number, fold == number
            model = LogisticRegression(C=1 / (penalty * train.sum()), max_iter=1000).fit(
                rows[train], is_source[train]
            )
            logits = model.decision_function(rows[held])
            total -= log_expit(np.where(is_source[held], logits, -logits)).sum()
        losses.append(total)
    assert best_penalty(rows, is_source, fold) == PENALTIES[int(np.argmin(losses))]


def test_gaussian_is_the_ratio_of_two_normal_densities() -> None:
    source, target = domains()
    densities = [
        multivariate_normal(rows.mean(axis=0), LedoitWolf().fit(rows).covariance_) for rows in (source, target)
    ]
    expected = densities[0].logpdf(NEW) - densities[1].logpdf(NEW)
    ours = np.log(density_ratio_estimator("gaussian").fit(source, target).predict(NEW))
    np.testing.assert_allclose(ours, expected, atol=1e-4)


def test_gaussian_sees_a_change_of_variance() -> None:
    generator = np.random.default_rng(0)
    ratio = density_ratio_estimator("gaussian").fit(
        generator.normal(size=(4000, 1)), 2 * generator.normal(size=(4000, 1))
    )
    grid = np.linspace(-3, 3, 21)
    expected = np.log(2) - grid**2 / 2 + grid**2 / 8
    np.testing.assert_allclose(np.log(ratio.predict(grid[:, None])), expected, atol=0.15)


def test_kernel_density_by_scotts_rule_is_scipys_in_one_dimension() -> None:
    """In one dimension nothing is shrunk, and scipy's covariance differs by n / (n - 1) alone."""
    source, target = domains(500, 1)
    grid = np.linspace(-1.5, 1.5, 21)
    expected = gaussian_kde(source[:, 0]).logpdf(grid) - gaussian_kde(target[:, 0]).logpdf(grid)
    ours = (
        density_ratio_estimator("kernel-density", {"bandwidth": "scott"}).fit(source, target).predict(grid[:, None])
    )
    np.testing.assert_allclose(np.log(ours), expected, atol=0.005)


def test_kernel_density_bandwidth_has_the_smallest_leave_one_out_domain_loss() -> None:
    source, target = (rows[:, 0] for rows in domains(40, 1, shift=1.0))

    def log_density(point: float, points: FloatArray, deviation: float, factor: float, num_all: int) -> float:
        width = factor * num_all ** (-1 / 5) * deviation
        return float(np.log(np.mean(np.exp(-((point - points) ** 2) / (2 * width**2)) / width)))

    losses = []
    for factor in BANDWIDTH_FACTORS:
        loss = 0.0
        for own, other in ((source, target), (target, source)):
            for index, point in enumerate(own):
                log_own = log_density(point, np.delete(own, index), own.std(), factor, len(own))
                loss -= log_expit(log_own - log_density(point, other, other.std(), factor, len(other)))
        losses.append(loss)
    assert best_factor(source[:, None], target[:, None]) == BANDWIDTH_FACTORS[int(np.argmin(losses))]


def test_ulsif_is_the_closed_form_scaled_to_a_mean_of_one_on_the_target() -> None:
    source, target = domains()
    width, penalty = 0.8, 0.1
    target_kernel, source_kernel = kernel(target, source, width), kernel(source, source, width)
    second = target_kernel.T @ target_kernel / len(target)
    weights = np.maximum(np.linalg.solve(second + penalty * np.eye(len(source)), source_kernel.mean(axis=0)), 0)
    ours = density_ratio_estimator("ulsif", {"width": width, "penalty": penalty}).fit(source, target).predict(NEW)
    expected = kernel(NEW, source, width) @ weights / (target_kernel @ weights).mean()
    np.testing.assert_allclose(ours, np.clip(expected, 1e-3, 1e3), rtol=1e-8)


@pytest.mark.parametrize("alpha", [0.1, 0.5])
def test_rulsif_is_the_closed_form(alpha: float) -> None:
    source, target = domains()
    width, penalty = 1.5, 0.1
    target_kernel, source_kernel = kernel(target, source, width), kernel(source, source, width)
    second = alpha * source_kernel.T @ source_kernel / len(source)
    second += (1 - alpha) * target_kernel.T @ target_kernel / len(target)
    weights = np.linalg.solve(second + penalty * np.eye(len(source)), source_kernel.mean(axis=0))
    relative = kernel(NEW, source, width) @ weights
    expected = (1 - alpha) * relative / (1 - alpha * relative)
    assert (expected > 1e-3).all()
    ours = density_ratio_estimator("rulsif", {"width": width, "penalty": penalty, "alpha": alpha}).fit(source, target)
    np.testing.assert_allclose(ours.predict(NEW), expected, rtol=1e-8)


@pytest.mark.parametrize("name", ["ulsif", "rulsif"])
def test_given_width_and_chosen_penalty(name: str) -> None:
    ratio = density_ratio_estimator(name, {"width": 1.0}).fit(*domains())
    assert np.isfinite(ratio.predict(NEW)).all()


def test_kliep_finds_the_optimum_of_a_general_solver() -> None:
    source, target = domains(50)
    source_kernel, target_kernel = kernel(source, source[:8], 0.8), kernel(target, source[:8], 0.8)
    ours = kliep_weights(source_kernel, target_kernel, tolerance=1e-7, max_steps=100_000)
    assert (ours >= 0).all()
    assert (target_kernel @ ours).mean() == pytest.approx(1)
    reference = minimize(
        lambda weights: -np.log(source_kernel @ weights).mean(),
        np.full(8, 1 / target_kernel.sum(axis=1).mean()),
        method="SLSQP",
        bounds=[(0, None)] * 8,
        constraints={"type": "eq", "fun": lambda weights: (target_kernel @ weights).mean() - 1},
        options={"ftol": 1e-12, "maxiter": 1000},
    )
    assert np.log(source_kernel @ ours).mean() == pytest.approx(-reference.fun, abs=1e-6)


def test_kliep_with_a_constant_keeps_far_source_points_from_a_ratio_of_zero() -> None:
    source, target = domains(200)
    far = np.full((1, 2), -8.0)
    without, with_constant = (
        density_ratio_estimator("kliep", {"width": 0.5, "constant": constant})
        .fit(source, target, seed=1)
        .predict(far)[0]
        for constant in (False, True)
    )
    assert without == pytest.approx(1e-3)
    assert with_constant > 0.02


def test_kliep_refuses_a_width_at_which_no_kernel_reaches_the_target() -> None:
    source, target = domains()
    with pytest.raises(ValueError, match="Give a larger width"):
        density_ratio_estimator("kliep", {"width": 1e-6}).fit(source, target)


@pytest.mark.parametrize("slack", [0.9, 0.001])
def test_kernel_mean_matching_finds_the_optimum_of_a_general_solver(slack: float) -> None:
    generator = np.random.default_rng(0)
    source, target = generator.normal(size=(25, 1)), generator.normal(size=(40, 1)) + 3
    gram, pull = kernel(source, source, 1.0), kernel(source, target, 1.0).mean(axis=1)

    def objective(weights: FloatArray) -> float:
        return float(weights @ gram @ weights / 2 / 25**2 - pull @ weights / 25)

    ours = matching_weights(gram, pull, max_weight=5.0, slack=slack)
    reference = minimize(
        objective,
        np.ones(25),
        jac=lambda weights: (gram @ weights / 25 - pull) / 25,
        method="SLSQP",
        bounds=[(0, 5.0)] * 25,
        constraints={"type": "ineq", "fun": lambda weights: slack - np.abs(weights.mean() - 1)},
        options={"ftol": 1e-14, "maxiter": 2000},
    )
    assert ours.min() >= 0
    assert ours.max() <= 5
    assert abs(ours.mean() - 1) <= slack + 2e-4
    assert objective(ours) <= reference.fun + 2e-5


def test_kernel_mean_matching_brings_the_means_together() -> None:
    generator = np.random.default_rng(0)
    source, target = generator.normal(size=(400, 1)), 0.7 * generator.normal(size=(400, 1)) + 0.5
    weights = 1 / density_ratio_estimator("kernel-mean-matching").fit(source, target).predict(source)
    mean = np.average(source[:, 0], weights=weights)
    assert mean == pytest.approx(target.mean(), abs=0.1)


@pytest.mark.parametrize("name", ["kernel-density", "kernel-mean-matching"])
def test_large_domains_are_subsampled(name: str) -> None:
    generator = np.random.default_rng(0)
    source, target = generator.normal(size=(5000, 1)), generator.normal(size=(5000, 1)) + 1
    ratio = density_ratio_estimator(name, {"max_rows": 200}).fit(source, target)
    assert np.corrcoef(np.log(ratio.predict(np.linspace(-1, 2, 31)[:, None])), -np.linspace(-1, 2, 31))[0, 1] > 0.9


def test_network_sees_a_ratio_that_is_not_linear() -> None:
    generator = np.random.default_rng(0)
    ratio = density_ratio_estimator("network").fit(
        generator.normal(size=(1500, 1)), 2 * generator.normal(size=(1500, 1))
    )
    middle, outside = ratio.predict(np.array([[0.0], [4.0]]))
    assert middle > 1.4
    assert outside < 0.3


def test_kernel_sums_do_not_underflow() -> None:
    squares = squared_distances(np.array([[0.0], [1e6]]), np.array([[0.0], [3.0]]))
    np.testing.assert_allclose(gaussian_kernel(squares[:1], 2.0), [[1.0, np.exp(-9 / 8)]])
    values = log_kernel_sum(squares, 1.0, np.array([1.0, 2.0]))
    np.testing.assert_allclose(values, [np.log(1 + 2 * np.exp(-4.5)), np.log(2) - (1e6 - 3) ** 2 / 2])
    np.testing.assert_allclose(log_kernel_sum(squares[:1], 1.0, np.array([0.0, 2.0])), [np.log(2) - 4.5])


def test_median_distance() -> None:
    generator = np.random.default_rng(0)
    assert median_distance(np.array([[0.0], [1.0], [3.0]]), generator) == 2.0
    assert median_distance(np.zeros((5, 2)), generator) == 1.0
    assert median_distance(np.array([[0.0]] * 9 + [[2.0]]), generator) == 2.0


def test_folds_are_even() -> None:
    numbers = fold_numbers(11, 3, np.random.default_rng(0))
    assert sorted(np.bincount(numbers)) == [3, 4, 4]


def test_standardization_gives_each_domain_half_of_the_weight_and_leaves_constants() -> None:
    source, target = np.array([[0.0, 5.0]] * 30), np.array([[2.0, 5.0]] * 3)
    standardization = Standardization.of(source, target)
    np.testing.assert_allclose(standardization.mean, [1.0, 5.0])
    np.testing.assert_allclose(standardization.scale, [1.0, 1.0])


def test_projection_keeps_the_directions_of_largest_variance() -> None:
    generator = np.random.default_rng(0)
    rows = generator.normal(size=(500, 3)) * [0.1, 3.0, 1.0]
    projected = Projection.of(rows, rows, 2)(rows)
    np.testing.assert_allclose(np.abs(np.corrcoef(projected[:, 0], rows[:, 1])[0, 1]), 1, atol=1e-3)
    np.testing.assert_allclose(np.abs(np.corrcoef(projected[:, 1], rows[:, 2])[0, 1]), 1, atol=1e-2)
    assert Projection.of(rows, rows, 3)(rows) is rows
