import math

import pytest
import torch
from torch.autograd import gradcheck
from torch.distributions import Categorical, kl_divergence

from shiftcal.functional.entropy import prediction_divergence, prediction_entropy

LOGITS = torch.randn(6, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
OTHER = torch.randn(6, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def test_entropy_is_that_of_torch_and_of_its_limits() -> None:
    torch.testing.assert_close(prediction_entropy(LOGITS), Categorical(logits=LOGITS).entropy())  # type: ignore[no-untyped-call]
    limits = prediction_entropy(torch.tensor([[3.0, 3.0, 3.0], [1e4, 0.0, 0.0]], dtype=torch.float64))
    assert limits.tolist() == pytest.approx([math.log(3), 0.0])


def test_divergence_is_that_of_torch_and_zero_for_equal_predictions() -> None:
    expected = kl_divergence(Categorical(logits=LOGITS), Categorical(logits=OTHER))
    torch.testing.assert_close(prediction_divergence(LOGITS, OTHER), expected)
    assert prediction_divergence(LOGITS, LOGITS + 5).abs().max() < 1e-12


def test_gradients() -> None:
    assert gradcheck(prediction_entropy, LOGITS.clone().requires_grad_())
    assert gradcheck(lambda logits: prediction_divergence(OTHER, logits), LOGITS.clone().requires_grad_())
