import numpy as np
import pytest
import torch
from torch.autograd import gradcheck

from shiftcal.functional.coral import coral_loss

SOURCE = torch.randn(9, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
TARGET = 2 * torch.randn(6, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def test_it_is_the_distance_of_numpys_covariances() -> None:
    difference = np.cov(SOURCE.numpy(), rowvar=False) - np.cov(TARGET.numpy(), rowvar=False)
    expected = np.linalg.norm(difference, "fro") ** 2 / (4 * 4**2)
    assert coral_loss(SOURCE, TARGET).item() == pytest.approx(expected)


def test_it_sees_a_change_of_spread_but_not_of_the_mean() -> None:
    assert coral_loss(SOURCE, SOURCE + 3).item() == pytest.approx(0, abs=1e-20)
    assert coral_loss(SOURCE, 3 * SOURCE) > 0


def test_a_single_row_has_no_spread() -> None:
    assert coral_loss(SOURCE[:1], SOURCE[:1] + 1).item() == 0


def test_gradients() -> None:
    assert gradcheck(coral_loss, (SOURCE.clone().requires_grad_(), TARGET.clone().requires_grad_()))
