import math

import numpy as np
import pytest
import torch
from torch.autograd import gradcheck
from torch.distributions import Categorical, kl_divergence

from shiftcal.functional.discrepancy import absolute_discrepancy, prediction_deviation, symmetric_divergence

LOGITS = torch.randn(6, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
OTHER = torch.randn(6, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
DRAWS = torch.randn(5, 6, 4, generator=torch.Generator().manual_seed(2), dtype=torch.float64)


def test_absolute_discrepancy_by_hand_and_at_its_limits() -> None:
    logits = torch.tensor([[0.0, 0.0], [1e4, 0.0], [2.0, 1.0]], dtype=torch.float64)
    other = torch.tensor([[math.log(3), 0.0], [0.0, 1e4], [7.0, 6.0]], dtype=torch.float64)
    # (1/2, 1/2) and (3/4, 1/4); opposite certainties; the same prediction.
    assert absolute_discrepancy(logits, other).tolist() == pytest.approx([0.25, 1.0, 0.0])


def test_symmetric_divergence_is_that_of_torch() -> None:
    first, second = Categorical(logits=LOGITS), Categorical(logits=OTHER)
    expected = (kl_divergence(first, second) + kl_divergence(second, first)) / 2
    torch.testing.assert_close(symmetric_divergence(LOGITS, OTHER), expected)
    torch.testing.assert_close(symmetric_divergence(OTHER, LOGITS), expected)
    assert symmetric_divergence(LOGITS, LOGITS + 5).abs().max() < 1e-12


def test_prediction_deviation_is_the_norm_of_the_deviations() -> None:
    odds = np.exp(DRAWS.numpy())
    deviations = (odds / odds.sum(axis=-1, keepdims=True)).std(axis=0, ddof=1)
    np.testing.assert_allclose(prediction_deviation(DRAWS).numpy(), np.linalg.norm(deviations, axis=-1))


def test_gradients() -> None:
    assert gradcheck(lambda logits: absolute_discrepancy(logits, OTHER), LOGITS.clone().requires_grad_())
    assert gradcheck(symmetric_divergence, (LOGITS.clone().requires_grad_(), OTHER.clone().requires_grad_()))
    assert gradcheck(prediction_deviation, DRAWS.clone().requires_grad_())


def test_draws_that_agree_have_no_deviation_and_a_finite_gradient() -> None:
    draws = LOGITS.float().expand(3, 6, 4).clone().requires_grad_()
    deviation = prediction_deviation(draws)
    deviation.sum().backward()  # type: ignore[no-untyped-call]
    assert deviation.max() < 1e-5
    assert draws.grad is not None
    assert torch.isfinite(draws.grad).all()
