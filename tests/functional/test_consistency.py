import numpy as np
import pytest
import torch
from scipy.special import log_softmax

from shiftcal.functional.consistency import (
    align_probabilities,
    consistency_loss,
    pseudo_label_record,
)

WEAK = torch.tensor([[0.9, 0.1, 0.0], [0.2, 0.5, 0.3], [0.0, 0.05, 0.95]])
STRONG = torch.tensor([[1.0, 2.0, 0.0], [0.5, 0.5, 0.5], [0.0, -1.0, 3.0]])


@pytest.mark.parametrize(
    ("threshold", "rows"),
    [(0.0, [0, 1, 2]), (0.9, [0, 2]), (0.92, [2]), (1.0, []), (torch.tensor([0.95, 0.4, 0.96]), [1])],
)
def test_the_loss_is_a_mean_over_all_rows_of_which_some_count(
    threshold: float | torch.Tensor, rows: list[int]
) -> None:
    labels = [0, 1, 2]
    expected = -sum(log_softmax(STRONG.double().numpy(), axis=1)[row, labels[row]] for row in rows) / 3
    loss, kept = consistency_loss(WEAK, STRONG, threshold)
    assert loss.item() == pytest.approx(expected, rel=1e-6)
    assert kept.nonzero().flatten().tolist() == rows


def test_pseudo_labels_carry_no_gradient() -> None:
    weak, strong = WEAK.clone().requires_grad_(), STRONG.clone().requires_grad_()
    loss, _ = consistency_loss(weak, strong, 0.9)
    to_weak, to_strong = torch.autograd.grad(loss, [weak, strong], allow_unused=True)
    assert to_weak is None
    # softmax - one-hot, over the number of rows, where kept.
    expected = (torch.softmax(STRONG, dim=-1) - torch.eye(3)) / 3
    expected[1] = 0
    torch.testing.assert_close(to_strong, expected)


def test_a_record_has_no_confidence_where_nothing_is_kept() -> None:
    record = pseudo_label_record(WEAK, torch.tensor([True, False, True]))
    assert {name: value.item() for name, value in record.items()} == pytest.approx(
        {"pseudo_coverage": 2 / 3, "pseudo_confidence": 0.925}
    )
    nothing = pseudo_label_record(WEAK, torch.zeros(3, dtype=torch.bool))
    assert {name: value.item() for name, value in nothing.items()} == {"pseudo_coverage": 0}


def test_alignment_by_hand_and_where_nothing_is_found() -> None:
    wanted, found = torch.tensor([0.2, 0.2, 0.6]), torch.tensor([0.5, 0.25, 0.25])
    aligned = align_probabilities(torch.tensor([[0.5, 0.25, 0.25]]), wanted, found)
    np.testing.assert_allclose(aligned.numpy(), wanted.numpy()[None], rtol=1e-5)
    extreme = align_probabilities(torch.eye(3), wanted, torch.tensor([1.0, 0.0, 0.0]))
    assert torch.isfinite(extreme).all()
    torch.testing.assert_close(extreme, torch.eye(3))
