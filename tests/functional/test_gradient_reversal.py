import pytest
import torch

from shiftcal.functional.gradient_reversal import reversal_scale, reverse_gradient


def test_values_pass_and_the_gradient_is_turned_round_and_scaled() -> None:
    values = torch.tensor([1.0, -2.0, 3.0], dtype=torch.float64, requires_grad=True)
    passed = reverse_gradient(values, 0.25)
    assert torch.equal(passed, values)
    (passed.square()).sum().backward()  # type: ignore[no-untyped-call]
    torch.testing.assert_close(values.grad, -0.25 * 2 * values.detach())


def test_what_follows_the_reversal_has_its_own_gradient() -> None:
    values = torch.tensor([2.0], requires_grad=True)
    weight = torch.tensor([5.0], requires_grad=True)
    (weight * reverse_gradient(values, 0.5)).sum().backward()  # type: ignore[no-untyped-call]
    assert weight.grad is not None
    assert values.grad is not None
    assert (weight.grad.item(), values.grad.item()) == (2.0, -2.5)


def test_the_scale_grows_from_nothing_to_almost_one() -> None:
    scales = [reversal_scale(progress) for progress in (0.0, 0.1, 0.5, 1.0)]
    # (1 - e^-x) / (1 + e^-x) is tanh(x / 2).
    assert scales == pytest.approx([0.0, 0.46211716, 0.98661430, 0.99990920])
