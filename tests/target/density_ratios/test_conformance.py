"""What holds for every estimator of the registry."""

import pickle
from typing import Any

import numpy as np
import pytest
import torch

from shiftcal.core.errors import InvalidInputError, UnknownNameError
from shiftcal.core.options import option_names
from shiftcal.metrics.checks import FloatArray
from shiftcal.target.density_ratios import DENSITY_RATIOS, Diagnostics, density_ratio_estimator

NAMES = sorted(DENSITY_RATIOS)
# Mean absolute error of log R where |true log R| < 1.5, whose own mean absolute value is 0.7.
LARGEST_ERROR = {
    "gaussian": 0.10,
    "kernel-density": 0.20,
    "kernel-mean-matching": 0.20,
    "kliep": 0.20,
    "logistic": 0.10,
    "network": 0.20,
    "rulsif": 0.20,
    "ulsif": 0.20,
}
# Faster forms for tests that are not about accuracy.
FAST: dict[str, dict[str, Any]] = {
    "network": {"max_epochs": 3},
    "kliep": {"width": 1.0},
    "logistic": {"penalty": 10.0},
}


def features(num_rows: int, num_features: int = 3, *, shift: float = 0.0, seed: int = 0) -> FloatArray:
    return np.random.default_rng(seed).normal(size=(num_rows, num_features)) + shift


@pytest.mark.parametrize("name", NAMES)
def test_log_ratio_of_two_gaussians(name: str, shifted: tuple[FloatArray, FloatArray]) -> None:
    grid = np.linspace(-1, 2, 61)
    true = 0.5 - grid
    ratio = density_ratio_estimator(name).fit(*shifted, seed=0)
    log_ratio = np.log(ratio.predict(10 + 5 * grid[:, None]))
    assert np.corrcoef(log_ratio, true)[0, 1] > 0.97
    assert np.abs(log_ratio - true).mean() < LARGEST_ERROR[name]


@pytest.mark.parametrize("name", NAMES)
def test_same_distribution_gives_a_ratio_near_one(name: str) -> None:
    # The bound keeps a source row that lies far from every kernel from outweighing all others.
    # A shift is seen by chance in about one of sixteen draws; this is one of the others.
    source, target = features(400, 2, seed=1), features(300, 2, seed=2)
    ratio = density_ratio_estimator(name, {"bound": 10.0}).fit(source, target, seed=3)
    log_ratio = np.log(ratio.predict(0.7 * features(200, 2, seed=3)))
    assert np.abs(log_ratio).mean() < 0.25
    assert ratio.diagnostics.verdict.startswith("no shift visible")
    kernels_around_source_points = name in ("kliep", "rulsif", "ulsif")
    assert ratio.diagnostics.effective_sample_share > (0.4 if kernels_around_source_points else 0.8)


@pytest.mark.parametrize("name", NAMES)
def test_far_domains_are_called_nearly_separable_and_the_bound_holds(name: str) -> None:
    source, target = features(120, seed=1), features(100, shift=6.0, seed=2)
    ratio = density_ratio_estimator(name, {"bound": 20.0} | ({"max_epochs": 30} if name == "network" else {})).fit(
        source, target
    )
    for far in (source, target, 1e6 * source):
        values = ratio.predict(far)
        assert values.min() >= 1 / 20 * (1 - 1e-12)
        assert values.max() <= 20 * (1 + 1e-12)
    assert np.median(ratio.predict(source)) > 2
    if name == "kernel-mean-matching":
        # It knows nothing but the weights of source points, which all are far from the target here.
        assert np.median(ratio.predict(target)) < 1.5
        return
    assert np.median(ratio.predict(target)) < 0.5
    assert ratio.diagnostics.verdict.startswith("nearly separable")
    assert "not reliable" in ratio.diagnostics.verdict


@pytest.mark.parametrize("name", NAMES)
def test_seed_decides_and_global_randomness_is_left_alone(name: str) -> None:
    source, target, new = features(60, seed=1), features(50, shift=0.5, seed=2), features(20, seed=3)
    estimator = density_ratio_estimator(name, FAST.get(name))
    np.random.seed(1)
    torch.manual_seed(1)
    before = torch.get_rng_state()
    first = estimator.fit(source, target, seed=3)
    first_values, first_diagnostics = first.predict(new), first.diagnostics
    assert torch.equal(before, torch.get_rng_state())
    torch.manual_seed(2)
    again = estimator.fit(source, target, seed=3)
    np.testing.assert_array_equal(again.predict(new), first_values)
    assert again.diagnostics == first_diagnostics
    assert isinstance(first_diagnostics, Diagnostics)


@pytest.mark.parametrize("name", NAMES)
def test_torch_and_numpy_give_the_same_and_a_pickle_too(name: str) -> None:
    source, target, new = (features(40, seed=seed).astype(np.float32) for seed in (1, 2, 3))
    estimator = density_ratio_estimator(name, FAST.get(name))
    from_numpy = estimator.fit(source, target)
    expected = from_numpy.predict(new)
    assert expected.dtype == np.float64
    assert expected.shape == (40,)
    from_torch = estimator.fit(torch.from_numpy(source).requires_grad_(), torch.from_numpy(target))
    np.testing.assert_array_equal(from_torch.predict(torch.from_numpy(new)), expected)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(from_numpy)).predict(new), expected)


@pytest.mark.parametrize("name", NAMES)
def test_units_of_the_features_do_not_matter(name: str) -> None:
    source, target, new = features(60, seed=1), features(50, shift=0.5, seed=2), features(20, seed=3)
    scale, offset = np.array([1e-6, 1.0, 1e6]), np.array([3.0, 1e3, -1e7])
    estimator = density_ratio_estimator(name, FAST.get(name))
    plain = estimator.fit(source, target).predict(new)
    scaled = estimator.fit(*(rows * scale + offset for rows in (source, target))).predict(new * scale + offset)
    np.testing.assert_allclose(np.log(scaled), np.log(plain), atol=0.02)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "case", ["smallest", "constant feature", "all rows the same", "more features than rows", "repeated rows"]
)
def test_awkward_data(name: str, case: str) -> None:
    source, target = {
        "smallest": (features(10, 1, seed=1), features(10, 1, seed=2)),
        "constant feature": (features(30, seed=1) * [1, 0, 1] + 7, features(30, seed=2) * [1, 0, 1] + 7),
        "all rows the same": (np.ones((20, 2)), np.ones((15, 2))),
        "more features than rows": (features(20, 50, seed=1), features(12, 50, seed=2)),
        "repeated rows": (np.repeat(features(5, seed=1), 4, axis=0), np.repeat(features(5, seed=2), 4, axis=0)),
    }[case]
    # As it is by default on one, which chooses its options by held-out rows.
    options = None if case == "repeated rows" else FAST.get(name)
    ratio = density_ratio_estimator(name, options).fit(source, target)
    assert np.isfinite(ratio.predict(np.concatenate([source, target]))).all()
    assert np.isfinite(ratio.diagnostics.domain_calibration_error)


@pytest.mark.parametrize("name", NAMES)
def test_projection_sees_the_leading_components(name: str) -> None:
    """The shift lies along the feature pair with the largest common variance; 20 features of noise are left out."""
    generator = np.random.default_rng(0)

    def rows(num_rows: int, shift: float) -> FloatArray:
        common = generator.normal(size=(num_rows, 1)) + shift
        return np.concatenate([common + 0.01 * generator.normal(size=(num_rows, 6)), features(num_rows, 20)], axis=1)

    ratio = density_ratio_estimator(name, FAST.get(name, {}) | {"num_components": 1}).fit(
        rows(200, 0.0), rows(200, 2.0)
    )
    assert np.median(ratio.predict(rows(100, -1.0))) > np.median(ratio.predict(rows(100, 3.0)))


@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        (np.zeros(20), np.zeros((20, 2)), r"source_features must have shape \(rows, features\).*features\[:, None\]"),
        (np.zeros((0, 2)), np.zeros((20, 2)), r"source_features must have shape.*\(0, 2\)"),
        (np.zeros((20, 0)), np.zeros((20, 2)), r"source_features must have shape.*\(20, 0\)"),
        (np.zeros((20, 2)), np.zeros((20, 2, 1)), r"target_features must have shape"),
        (np.zeros((20, 2)), np.zeros((20, 3)), "same number of columns. Got 2 and 3"),
        (np.zeros((20, 2)), np.full((20, 2), np.nan), "target_features must be finite. Got nan at row 0, column 0"),
        (np.full((20, 2), np.inf), np.zeros((20, 2)), "source_features must be finite. Got inf"),
        (np.zeros((9, 2)), np.zeros((20, 2)), "source_features must have at least 10 rows.*Got 9"),
        (np.full((20, 2), "a"), np.zeros((20, 2)), "source_features must be an array of real numbers"),
        ([[1.0], [1.0, 2.0]], np.zeros((20, 2)), "source_features must be an array of numbers"),
    ],
)
@pytest.mark.parametrize("name", ["gaussian", "logistic"])
def test_wrong_features(name: str, source: FloatArray, target: FloatArray, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        density_ratio_estimator(name).fit(source, target)


def test_wrong_features_in_prediction() -> None:
    ratio = density_ratio_estimator("gaussian").fit(features(20), features(20, seed=1))
    with pytest.raises(InvalidInputError, match=r"features must have 3 columns, as in the fit. Got shape \(5, 2\)"):
        ratio.predict(np.zeros((5, 2)))
    with pytest.raises(InvalidInputError, match="features must be finite"):
        ratio.predict(np.full((5, 3), np.nan))
    with pytest.raises(InvalidInputError, match="features must have shape"):
        ratio.predict(np.zeros((0, 3)))


@pytest.mark.parametrize("seed", [-1, 0.5, "a", None])
def test_wrong_seed(seed: int) -> None:
    with pytest.raises(InvalidInputError, match="seed must be an integer of at least 0"):
        density_ratio_estimator("gaussian").fit(features(20), features(20), seed=seed)


def test_wrong_names_and_options() -> None:
    with pytest.raises(UnknownNameError, match=r"unknown density ratio 'ulfis'\. Did you mean 'ulsif'"):
        density_ratio_estimator("ulfis")
    with pytest.raises(
        UnknownNameError, match=r"unknown option of density ratio 'kliep' 'widht'\. Did you mean 'width'"
    ):
        density_ratio_estimator("kliep", {"widht": 1.0})
    with pytest.raises(
        InvalidInputError, match="'bound' of density ratio 'logistic' must be a number of more than 1"
    ):
        density_ratio_estimator("logistic", {"bound": 1.0})


@pytest.mark.parametrize("name", NAMES)
def test_options_are_documented_and_the_bound_is_one_of_them(name: str) -> None:
    cls = DENSITY_RATIOS[name]
    assert {"bound", "num_components"} <= set(option_names(cls))
    assert "good for" in (cls.__doc__ or "")
