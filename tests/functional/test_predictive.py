import math
from typing import get_args

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from torch import Tensor
from torch.autograd import gradcheck

from shiftcal.functional.predictive import RegularizedForm, maximizer_logits, robust_logits, robust_probabilities


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


def maximizer_by_solver(scores: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The distribution f with the largest sum of scores f - weights f log f, by a general solver."""
    found = minimize(
        lambda f: float((weights * f * np.log(f) - scores * f).sum()),
        np.full(len(scores), 1 / len(scores)),
        jac=lambda f: weights * (np.log(f) + 1) - scores,
        bounds=[(1e-12, 1)] * len(scores),
        constraints={"type": "eq", "fun": lambda f: f.sum() - 1, "jac": np.ones_like},
        method="SLSQP",
        options={"ftol": 1e-16, "maxiter": 500},
    )
    return np.asarray(found.x)


@pytest.mark.parametrize(
    ("regularization", "off"), [(0.0, 0), (0.001, 0.0002), (0.1, 0.018), (0.5, 0.068), (1, 0.113)]
)
def test_the_exact_form_is_the_maximiser_and_the_published_one_is_not(regularization: float, off: float) -> None:
    logits, ratio, labels = random_problem(20, 3)
    scores = (ratio[:, None] * logits).numpy()
    weights = 1 + regularization * np.eye(3)[labels.numpy()]
    best = np.array([maximizer_by_solver(*row) for row in zip(scores, weights, strict=True)])
    forms = {
        form: robust_probabilities(
            logits, ratio, class_regularization=regularization, labels=labels, form=form
        ).numpy()
        for form in get_args(RegularizedForm)
    }
    np.testing.assert_allclose(forms["exact"], best, atol=5e-8)
    assert np.abs(forms["paper"] - best).max() == pytest.approx(off, rel=0.05, abs=5e-8)


@pytest.mark.parametrize("size", [1.0, 30.0, 1000.0])
def test_the_exact_form_meets_the_conditions_of_its_maximum(size: float) -> None:
    """(1 + r 1[y]) (log f + 1) - R z is the multiplier, equal for all classes, also where a class has no chance."""
    logits, ratio, labels = random_problem(50, 5)
    scores = size * ratio[:, None] * logits
    exact = torch.log_softmax(maximizer_logits(scores, labels, 1.0), dim=-1)
    multiplier = (1 + torch.eye(5)[labels]) * (exact + 1) - scores
    torch.testing.assert_close(multiplier, multiplier[:, :1].expand(-1, 5), atol=1e-9, rtol=1e-12)


@pytest.mark.parametrize("with_labels", [False, True])
def test_a_constant_per_sample_changes_nothing(with_labels: bool) -> None:
    logits, ratio, labels = random_problem()
    offset = torch.linspace(-50, 50, len(logits), dtype=torch.float64)[:, None]
    given = labels if with_labels else None
    before = robust_probabilities(logits, ratio, class_regularization=0.3, labels=given)
    after = robust_probabilities(logits + offset, ratio, class_regularization=0.3, labels=given)
    torch.testing.assert_close(before, after, atol=1e-10, rtol=0)


@pytest.mark.parametrize(("with_labels", "form"), [(False, "paper"), (True, "paper"), (True, "exact")])
def test_gradients_of_the_form(with_labels: bool, form: RegularizedForm) -> None:
    logits, ratio, labels = random_problem(3, 3)

    def formed(z: Tensor, r: Tensor) -> Tensor:
        return robust_logits(z, r, class_regularization=0.2, labels=labels if with_labels else None, form=form)

    assert gradcheck(formed, (logits.requires_grad_(), ratio.requires_grad_()))
