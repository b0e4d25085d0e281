import math

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck

from shiftcal.functional.predictive import robust_logits, robust_probabilities


def random_problem(num_samples: int = 7, num_classes: int = 4) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(num_samples, num_classes, generator=generator, dtype=torch.float64)
    ratio = torch.rand(num_samples, generator=generator, dtype=torch.float64) * 3 + 0.1
    labels = torch.randint(num_classes, (num_samples,), generator=generator)
    return logits, ratio, labels


def test_plain_form_is_the_closed_form() -> None:
    logits, ratio, _ = random_problem()
    got = robust_probabilities(logits, ratio)
    for row in range(len(logits)):
        weights = [math.exp(ratio[row].item() * z) for z in logits[row].tolist()]
        assert got[row].tolist() == pytest.approx([weight / sum(weights) for weight in weights], abs=1e-12)


@pytest.mark.parametrize("regularization", [0.0, 0.001, 0.1, 1.0])
def test_training_form_is_the_closed_form(regularization: float) -> None:
    logits, ratio, labels = random_problem()
    got = robust_probabilities(logits, ratio, class_regularization=regularization, labels=labels)
    for row in range(len(logits)):
        mean = logits[row].mean().item()
        weights = []
        for label, z in enumerate(logits[row].tolist()):
            hit = regularization * (label == labels[row].item())
            weights.append(math.exp((ratio[row].item() * (z - mean) + hit) / (hit + 1)))
        assert got[row].tolist() == pytest.approx([weight / sum(weights) for weight in weights], abs=1e-12)


@pytest.mark.parametrize("regularization", [0.0, 0.1, 1.0])
def test_inference_form_divides_by_one_plus_r(regularization: float) -> None:
    logits, ratio, _ = random_problem()
    got = robust_probabilities(logits, ratio, class_regularization=regularization)
    expected = torch.softmax(ratio[:, None] * logits / (1 + regularization), dim=-1)
    torch.testing.assert_close(got, expected, atol=1e-12, rtol=0)


def test_limits_of_the_ratio() -> None:
    logits, _, _ = random_problem()
    ones = torch.ones(len(logits), dtype=torch.float64)
    torch.testing.assert_close(robust_probabilities(logits, ones), torch.softmax(logits, dim=-1))
    uniform = torch.full_like(logits, 1 / logits.shape[1])
    torch.testing.assert_close(robust_probabilities(logits, ones * 1e-12), uniform, atol=1e-10, rtol=0)
    arg_max = torch.nn.functional.one_hot(logits.argmax(dim=-1), logits.shape[1]).double()
    torch.testing.assert_close(robust_probabilities(logits, ones * 1e6), arg_max)


@pytest.mark.parametrize("with_labels", [False, True])
def test_a_constant_per_sample_changes_nothing(with_labels: bool) -> None:
    logits, ratio, labels = random_problem()
    offset = torch.linspace(-50, 50, len(logits), dtype=torch.float64)[:, None]
    given = labels if with_labels else None
    before = robust_probabilities(logits, ratio, class_regularization=0.3, labels=given)
    after = robust_probabilities(logits + offset, ratio, class_regularization=0.3, labels=given)
    torch.testing.assert_close(before, after, atol=1e-10, rtol=0)


@pytest.mark.parametrize("with_labels", [False, True])
def test_gradients_of_the_form(with_labels: bool) -> None:
    logits, ratio, labels = random_problem(3, 3)

    def form(z: Tensor, r: Tensor) -> Tensor:
        return robust_logits(z, r, class_regularization=0.2, labels=labels if with_labels else None)

    assert gradcheck(form, (logits.requires_grad_(), ratio.requires_grad_()))
