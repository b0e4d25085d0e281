import torch
from torch.distributions import Normal, kl_divergence

from shiftcal.functional.gaussian_weights import activation_deviation, gaussian_divergence

GENERATOR = torch.Generator().manual_seed(0)
MEAN = torch.randn(3, 5, generator=GENERATOR, dtype=torch.float64)
DEVIATION = torch.rand(3, 5, generator=GENERATOR, dtype=torch.float64) + 0.1


def test_divergence_is_that_of_torch_and_zero_at_the_prior() -> None:
    expected = kl_divergence(Normal(MEAN, DEVIATION), Normal(torch.zeros_like(MEAN), 0.7)).sum()
    torch.testing.assert_close(gaussian_divergence(MEAN, DEVIATION, 0.7), expected)
    prior = torch.full_like(MEAN, 0.7)
    assert gaussian_divergence(torch.zeros_like(MEAN), prior, 0.7).abs() < 1e-12


def test_activations_vary_as_those_of_drawn_weights_do() -> None:
    features = torch.randn(4, 5, generator=GENERATOR, dtype=torch.float64)
    bias_deviation = torch.tensor([0.5, 1.0, 0.0], dtype=torch.float64)
    num_draws = 40_000
    weights = MEAN + DEVIATION * torch.randn(num_draws, 3, 5, generator=GENERATOR, dtype=torch.float64)
    biases = bias_deviation * torch.randn(num_draws, 1, 3, generator=GENERATOR, dtype=torch.float64)
    drawn = (features @ weights.transpose(1, 2) + biases).std(dim=0)
    got = activation_deviation(features, DEVIATION, bias_deviation)
    torch.testing.assert_close(got, drawn, rtol=0.02, atol=0)
