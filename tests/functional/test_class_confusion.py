import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.special import softmax

from shiftcal.functional.class_confusion import class_confusion_loss


def confusion_by_matrices(logits: NDArray[np.float64], temperature: float) -> float:
    """The definition, step by step: weights of mean one, the matrix, its normalisation, what is off the diagonal."""
    num_rows, num_classes = logits.shape
    probabilities = softmax(logits / temperature, axis=1)
    entropy = -(probabilities * np.log(probabilities)).sum(axis=1)
    weights = 1 + np.exp(-entropy)
    weights = num_rows * weights / weights.sum()
    matrix = probabilities.T @ np.diag(weights) @ probabilities
    matrix = matrix / matrix.sum(axis=1, keepdims=True)
    return float((matrix.sum() - np.trace(matrix)) / num_classes)


@pytest.mark.parametrize("temperature", [1.0, 2.5])
def test_it_is_what_is_off_the_diagonal(temperature: float) -> None:
    logits = 2 * np.random.default_rng(0).normal(size=(12, 5))
    got = class_confusion_loss(torch.from_numpy(logits), temperature)
    assert got.item() == pytest.approx(confusion_by_matrices(logits, temperature))


def test_limits() -> None:
    sure = 1e4 * torch.eye(3, dtype=torch.float64)
    assert class_confusion_loss(sure, 1.0).item() == pytest.approx(0)
    assert class_confusion_loss(torch.zeros(7, 4, dtype=torch.float64), 1.0).item() == pytest.approx(3 / 4)


def test_a_class_without_probability_gives_no_nan() -> None:
    logits = torch.tensor([[1e4, 0.0, -1e4], [1e4, 0.0, -1e4]], requires_grad=True)
    loss = class_confusion_loss(logits, 1.0)
    loss.backward()  # type: ignore[no-untyped-call]
    assert logits.grad is not None
    assert torch.isfinite(loss)
    assert torch.isfinite(logits.grad).all()


def test_weights_take_no_part_in_gradients() -> None:
    logits = torch.randn(8, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64, requires_grad=True)
    (gradient,) = torch.autograd.grad(class_confusion_loss(logits, 2.0), logits)
    probabilities = torch.softmax(logits / 2.0, dim=1)
    entropy = -(probabilities * probabilities.log()).sum(dim=1)
    matrix = probabilities.T @ torch.diag(1 + torch.exp(-entropy.detach())) @ probabilities
    off_diagonal = 1 - torch.trace(matrix / matrix.sum(dim=1, keepdim=True)) / 3
    torch.testing.assert_close(gradient, torch.autograd.grad(off_diagonal, logits)[0])
