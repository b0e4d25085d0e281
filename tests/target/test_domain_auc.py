import pytest
import torch

from shiftcal.target.domain_auc import evenly_spread, separation


def normal(num_rows: int, width: int, mean: float = 0.0, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return mean + torch.randn(num_rows, width, generator=generator, dtype=torch.float64)


def test_like_samples_cannot_be_told_apart_however_few_their_rows() -> None:
    assert separation(normal(60, 200), normal(40, 200, seed=1)) < 0.25
    assert separation(normal(1500, 5), normal(1500, 5, seed=1)) < 0.06


def test_it_is_the_gini_of_the_best_direction() -> None:
    """Means one deviation apart in one dimension: AUC = Phi(1 / sqrt 2) = 0.760."""
    assert separation(normal(2000, 1), normal(2000, 1, mean=1.0, seed=1)) == pytest.approx(0.520, abs=0.04)


def test_far_apart_is_one_and_too_few_rows_are_zero() -> None:
    assert separation(normal(50, 3), normal(50, 3, mean=20.0, seed=1)) == 1.0
    assert separation(normal(1, 3), normal(50, 3)) == 0.0


def test_rows_are_evenly_spread() -> None:
    assert evenly_spread(5, 10).tolist() == [0, 1, 2, 3, 4]
    assert evenly_spread(101, 3).tolist() == [0, 50, 100]


def test_weights_make_one_sample_like_the_other() -> None:
    """N(0, 1) weighted by the density ratio is N(1, 1)."""
    first, second = normal(2000, 1), normal(2000, 1, mean=1.0, seed=1)
    assert separation(first, second, torch.exp(first[:, 0] - 0.5)) < 0.1
    assert separation(first, second, torch.full((2000,), 3.0)) == separation(first, second)
