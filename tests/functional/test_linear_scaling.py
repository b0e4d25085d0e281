import torch
from torch import Tensor

from shiftcal.functional.linear_scaling import centred, class_variances, minimize_loss, smoothed_loss


def test_an_ill_conditioned_quadratic_is_minimised_exactly() -> None:
    curvature = torch.tensor([1e-3, 1.0, 1e4], dtype=torch.float64)
    best = torch.tensor([3.0, -2.0, 0.5], dtype=torch.float64)

    def loss(parameters: Tensor) -> Tensor:
        return (curvature * (parameters - best).square()).sum()

    found = minimize_loss(loss, torch.zeros(3, dtype=torch.float64), curvature, num_products=3)
    torch.testing.assert_close(found, best, rtol=1e-4, atol=1e-4)


def test_a_constant_per_row_does_not_matter_after_centring() -> None:
    logits = torch.tensor([[1.0, 2.0, 6.0]], dtype=torch.float64)
    assert torch.equal(centred(logits), centred(logits + 8))
    assert float(centred(logits).sum()) == 0


def test_class_variances_are_second_derivatives_of_the_loss() -> None:
    logits, step = torch.tensor([[0.3, -1.0, 0.7]], dtype=torch.float64), 1e-4
    losses = [
        [smoothed_loss(logits + shift * torch.eye(3)[k], torch.tensor([1])) for shift in (-step, 0.0, step)]
        for k in range(3)
    ]
    second = torch.tensor([float(low - 2 * middle + high) / step**2 for low, middle, high in losses])
    torch.testing.assert_close(class_variances(logits)[0].float(), second, rtol=1e-4, atol=1e-6)
