import pytest
import torch

from shiftcal.target.novelty import novelty


def rows(num_rows: int, seed: int) -> torch.Tensor:
    return torch.randn(num_rows, 4, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_a_target_as_the_source_has_hardly_any() -> None:
    assert novelty(rows(2000, 0), rows(2000, 1)) == pytest.approx(0.01, abs=0.01)


def test_rows_far_from_all_source_rows_are_counted() -> None:
    target = torch.cat([rows(300, 1), rows(100, 2) + 30])
    assert novelty(rows(2000, 0), target) == pytest.approx(0.25, abs=0.02)


def test_of_a_handful_of_source_rows_nothing_is_known() -> None:
    assert novelty(rows(5, 0), rows(20, 1) + 30) == 0
