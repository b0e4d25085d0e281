import math

import torch
from torch import Tensor
from torch.distributions import MultivariateNormal

from shiftcal.functional.gaussian_ratio import Moments, gaussian_log_density, gaussian_log_ratio

GENERATOR = torch.Generator().manual_seed(0)


def sample(num_rows: int, num_inputs: int, *, centre: float, scale: float) -> Tensor:
    mixing = torch.randn(num_inputs, num_inputs, generator=GENERATOR, dtype=torch.float64)
    return centre + scale * torch.randn(num_rows, num_inputs, generator=GENERATOR, dtype=torch.float64) @ mixing


def moments(values: Tensor) -> Moments:
    return Moments(values.mean(dim=0), values.T @ values / len(values))


def fitted_gaussian(values: Tensor) -> MultivariateNormal:
    return MultivariateNormal(values.mean(dim=0), values.T.cov(correction=0))


def test_covariance_of_moments() -> None:
    values = sample(30, 3, centre=5.0, scale=1.0)
    torch.testing.assert_close(moments(values).covariance, values.T.cov(correction=0))


def test_log_density_is_that_of_a_gaussian_up_to_a_constant() -> None:
    values = sample(200, 3, centre=1.0, scale=2.0)
    gaussian = fitted_gaussian(values)
    expected = gaussian.log_prob(values) + 1.5 * math.log(2 * math.pi)  # type: ignore[no-untyped-call]
    form = gaussian_log_density(gaussian.loc, gaussian.covariance_matrix)
    torch.testing.assert_close(form(values), expected, atol=1e-4, rtol=1e-4)


def test_with_all_components_it_is_the_difference_of_the_log_densities() -> None:
    source, target = sample(400, 4, centre=1.0, scale=1.0), sample(300, 4, centre=0.0, scale=2.0)
    form = gaussian_log_ratio(moments(source), moments(target), num_components=4)
    places = torch.cat([source[:20], target[:20]])
    expected = fitted_gaussian(source).log_prob(places) - fitted_gaussian(target).log_prob(places)  # type: ignore[no-untyped-call]
    torch.testing.assert_close(form(places), expected, atol=1e-3, rtol=1e-3)


def test_with_few_components_it_is_that_of_the_projected_samples() -> None:
    source, target = sample(400, 6, centre=1.0, scale=1.0), sample(400, 6, centre=0.0, scale=1.0)
    both = torch.cat([source, target])
    basis = torch.linalg.svd(both - both.mean(dim=0), full_matrices=False).Vh[:2].T
    form = gaussian_log_ratio(moments(source), moments(target), num_components=2)
    expected = fitted_gaussian(source @ basis).log_prob(both @ basis)  # type: ignore[no-untyped-call]
    expected -= fitted_gaussian(target @ basis).log_prob(both @ basis)  # type: ignore[no-untyped-call]
    torch.testing.assert_close(form(both), expected, atol=1e-3, rtol=1e-3)


def test_equal_samples_have_ratio_one_and_constant_inputs_do_no_harm() -> None:
    same = sample(50, 3, centre=0.0, scale=1.0)
    form = gaussian_log_ratio(moments(same), moments(same), num_components=3)
    torch.testing.assert_close(form(same), torch.zeros(50, dtype=torch.float64))
    constant = torch.ones(10, 3, dtype=torch.float64)
    form = gaussian_log_ratio(moments(constant), moments(constant), num_components=3)
    assert torch.isfinite(form(constant)).all()


def test_full_shrinkage_makes_the_gaussians_round() -> None:
    source, target = sample(50, 3, centre=1.0, scale=1.0), sample(50, 3, centre=0.0, scale=2.0)
    form = gaussian_log_ratio(moments(source), moments(target), num_components=3, shrinkage=1.0)
    off_diagonal = form.quadratic - torch.diag(form.quadratic.diagonal())
    assert off_diagonal.abs().max() < 1e-9
