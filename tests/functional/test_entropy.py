import math

import pytest
import torch
from torch.autograd import gradcheck
from torch.distributions import Categorical, kl_divergence

from shiftcal.functional.entropy import (
    certainty_weights,
    collision_entropy,
    prediction_divergence,
    prediction_entropy,
)

LOGITS = torch.randn(6, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
OTHER = torch.randn(6, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def test_entropy_is_that_of_torch_and_of_its_limits() -> None:
    torch.testing.assert_close(prediction_entropy(LOGITS), Categorical(logits=LOGITS).entropy())  # type: ignore[no-untyped-call]
    limits = prediction_entropy(torch.tensor([[3.0, 3.0, 3.0], [1e4, 0.0, 0.0]], dtype=torch.float64))
    assert limits.tolist() == pytest.approx([math.log(3), 0.0])


def test_sure_predictions_weigh_up_to_twice_as_much() -> None:
    logits = torch.tensor([[1e4, 0.0, 0.0, 0.0], [0.0, 0.0, -1e4, -1e4], [3.0, 3.0, 3.0, 3.0]], dtype=torch.float64)
    assert certainty_weights(logits).tolist() == pytest.approx([2.0, 1 + 1 / 2, 1 + 1 / 4])


def test_divergence_is_that_of_torch_and_zero_for_equal_predictions() -> None:
    expected = kl_divergence(Categorical(logits=LOGITS), Categorical(logits=OTHER))
    torch.testing.assert_close(prediction_divergence(LOGITS, OTHER), expected)
    assert prediction_divergence(LOGITS, LOGITS + 5).abs().max() < 1e-12


def test_collision_entropy_by_hand_at_its_limits_and_below_the_entropy() -> None:
    logits = torch.tensor([[0.0, 0.0, 0.0], [1e4, 0.0, 0.0], [math.log(2), 0.0, 0.0]], dtype=torch.float64)
    # (1/2, 1/4, 1/4): -log(1/4 + 1/16 + 1/16)
    assert collision_entropy(logits).tolist() == pytest.approx([math.log(3), 0.0, math.log(8 / 3)])
    assert (collision_entropy(LOGITS) < prediction_entropy(LOGITS)).all()


def test_gradients() -> None:
    assert gradcheck(collision_entropy, LOGITS.clone().requires_grad_())
    assert gradcheck(prediction_entropy, LOGITS.clone().requires_grad_())
    assert gradcheck(lambda logits: prediction_divergence(OTHER, logits), LOGITS.clone().requires_grad_())
