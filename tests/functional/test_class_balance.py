import math

import pytest
import torch
from torch.autograd import gradcheck

from shiftcal.functional.class_balance import class_balance_loss

LOGITS = torch.randn(6, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def test_loss_by_hand_and_at_its_minimum() -> None:
    # Means of (1/2, 1/2) and (3/4, 1/4): 5/8 and 3/8.
    logits = torch.tensor([[0.0, 0.0], [math.log(3), 0.0]], dtype=torch.float64)
    assert class_balance_loss(logits).item() == pytest.approx(-(math.log(5 / 8) + math.log(3 / 8)) / 2)
    # Sure predictions, one for each class, are as balanced as can be.
    assert class_balance_loss(1e4 * torch.eye(4)).item() == pytest.approx(math.log(4))
    assert class_balance_loss(LOGITS).item() > math.log(4)


def test_gradients() -> None:
    assert gradcheck(class_balance_loss, LOGITS.clone().requires_grad_())
    missing = torch.tensor([[1e3, 0.0], [1e3, 0.0]], requires_grad=True)
    class_balance_loss(missing).backward()  # type: ignore[no-untyped-call]
    assert missing.grad is not None
    assert torch.isfinite(missing.grad).all()
