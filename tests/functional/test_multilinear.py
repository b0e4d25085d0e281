import numpy as np
import torch

from shiftcal.functional.multilinear import multilinear_map, randomised_multilinear_map

GENERATOR = torch.Generator().manual_seed(0)
FEATURES = torch.randn(5, 7, generator=GENERATOR, dtype=torch.float64)
PROBABILITIES = torch.softmax(torch.randn(5, 3, generator=GENERATOR, dtype=torch.float64), dim=1)


def test_the_map_is_the_outer_product_of_each_row() -> None:
    expected = np.stack(
        [np.outer(f, g).ravel() for f, g in zip(FEATURES.numpy(), PROBABILITIES.numpy(), strict=True)]
    )
    np.testing.assert_allclose(multilinear_map(FEATURES, PROBABILITIES), expected)


def test_inner_products_are_products_of_inner_products() -> None:
    mapped = multilinear_map(FEATURES, PROBABILITIES)
    torch.testing.assert_close(mapped @ mapped.T, (FEATURES @ FEATURES.T) * (PROBABILITIES @ PROBABILITIES.T))


def test_the_randomised_map_keeps_inner_products_in_expectation() -> None:
    projected_dim = 200_000
    matrices = (torch.randn(size, projected_dim, generator=GENERATOR, dtype=torch.float64) for size in (7, 3))
    mapped = randomised_multilinear_map(FEATURES, PROBABILITIES, *matrices)
    exact = multilinear_map(FEATURES, PROBABILITIES)
    assert mapped.shape == (5, projected_dim)
    torch.testing.assert_close(mapped @ mapped.T, exact @ exact.T, atol=0.1, rtol=0.05)
