import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck

from shiftcal.functional.dual import target_potential, task_surrogate
from shiftcal.functional.predictive import centred, robust_probabilities


def dual_objective(
    source_logits: Tensor,
    source_labels: Tensor,
    target_logits: Tensor,
    target_density_ratio: Tensor,
) -> Tensor:
    """The dual L for r = 0, as a scalar: what the gradients are checked against."""
    matched = centred(source_logits).gather(-1, source_labels.unsqueeze(-1)).mean()
    return target_potential(target_logits, target_density_ratio) - matched


def assert_equal(actual: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(actual, expected, atol=1e-12, rtol=0)


class FiniteWorld:
    """Points whose source and target masses are whole multiples of a sample, so that expectations are exact."""

    def __init__(self, num_points: int = 5, num_classes: int = 3) -> None:
        generator = torch.Generator().manual_seed(1)
        self.logits = torch.randn(num_points, num_classes, generator=generator, dtype=torch.float64)
        source_counts = torch.tensor([1, 2, 3, 4, 10], dtype=torch.float64)
        target_counts = torch.tensor([8, 6, 3, 2, 1], dtype=torch.float64)
        self.source_points = torch.repeat_interleave(torch.arange(num_points), source_counts.long())
        self.target_points = torch.repeat_interleave(torch.arange(num_points), target_counts.long())
        self.labels = torch.randint(num_classes, (len(self.source_points),), generator=generator)
        self.ratio = (source_counts / len(self.source_points)) / (target_counts / len(self.target_points))


def gradient(output: Tensor, of: Tensor) -> Tensor:
    return torch.autograd.grad(output, of)[0]


def test_task_surrogate_has_the_gradient_of_the_dual() -> None:
    """Autograd on the dual uses target points; the surrogate uses source points alone; with the true R they agree."""
    world = FiniteWorld()
    logits = world.logits.requires_grad_()
    dual = dual_objective(
        logits[world.source_points],
        world.labels,
        logits[world.target_points],
        world.ratio[world.target_points],
    )
    surrogate = task_surrogate(logits[world.source_points], world.labels, world.ratio[world.source_points])
    assert_equal(gradient(surrogate, logits), gradient(dual, logits))


@pytest.mark.parametrize("regularization", [0.0, 0.5])
def test_task_gradient_is_the_closed_form(regularization: float) -> None:
    world = FiniteWorld()
    logits = world.logits[world.source_points].requires_grad_()
    ratio = world.ratio[world.source_points]
    got = gradient(task_surrogate(logits, world.labels, ratio, class_regularization=regularization), logits)
    probabilities = robust_probabilities(logits, ratio, class_regularization=regularization, labels=world.labels)
    expected = probabilities - torch.nn.functional.one_hot(world.labels, 3)
    assert_equal(got, expected.detach() / len(logits))


def test_task_gradient_carries_no_factor_of_the_ratio() -> None:
    """It differs from the gradient of cross-entropy on scaled logits by exactly R."""
    world = FiniteWorld()
    logits = world.logits[world.source_points].requires_grad_()
    ratio = world.ratio[world.source_points]
    cross_entropy = torch.nn.functional.cross_entropy(ratio[:, None] * logits, world.labels)
    surrogate = task_surrogate(logits, world.labels, ratio)
    assert_equal(gradient(surrogate, logits) * ratio[:, None], gradient(cross_entropy, logits))


def test_task_surrogate_without_shift_is_cross_entropy() -> None:
    world = FiniteWorld()
    logits = world.logits[world.source_points].requires_grad_()
    surrogate = task_surrogate(logits, world.labels, torch.ones(len(logits), dtype=torch.float64))
    cross_entropy = torch.nn.functional.cross_entropy(logits, world.labels)
    assert_equal(gradient(surrogate, logits), gradient(cross_entropy, logits))


@pytest.mark.parametrize("regularization", [0.0, 0.5])
def test_ratio_gradient_is_the_closed_form_and_never_negative(regularization: float) -> None:
    world = FiniteWorld()
    ratio = world.ratio.clone().requires_grad_()
    got = gradient(target_potential(world.logits, ratio, class_regularization=regularization), ratio)
    probabilities = robust_probabilities(world.logits, ratio, class_regularization=regularization)
    expected = (probabilities * centred(world.logits)).sum(dim=-1) / len(ratio)
    assert_equal(got, expected.detach())
    assert (got >= 0).all()


@pytest.mark.parametrize("regularization", [0.0, 0.5])
def test_ratio_gradient_in_full_is_that_of_the_dual_whose_second_term_is_of_the_target_too(
    regularization: float,
) -> None:
    """(f - g) . z: nothing is left to gain where f says of the logits what g does."""
    world = FiniteWorld()
    labels = torch.softmax(world.logits.flip(dims=(0, 1)), dim=-1)
    ratio = world.ratio.clone().requires_grad_()
    got = gradient(target_potential(world.logits, ratio, labels, class_regularization=regularization), ratio)
    probabilities = robust_probabilities(world.logits, ratio, class_regularization=regularization)
    assert_equal(got, (((probabilities - labels) * world.logits).sum(dim=-1) / len(ratio)).detach())
    of_itself = target_potential(world.logits, ratio, probabilities.detach(), class_regularization=regularization)
    assert_equal(gradient(of_itself, ratio), torch.zeros_like(ratio))


def test_the_dual_in_full_is_the_cross_entropy_of_the_prediction() -> None:
    world = FiniteWorld()
    labels = torch.softmax(world.logits.flip(dims=(0, 1)), dim=-1)
    expected = torch.nn.functional.cross_entropy(world.ratio[:, None] * world.logits, labels)
    assert_equal(target_potential(world.logits, world.ratio, labels), expected)


def test_the_second_term_is_that_of_the_source_by_a_change_of_measure() -> None:
    """E_source[ z_y ] = E_target[ R g . z ], with g the frequencies of labels at each point of the source."""
    world = FiniteWorld()
    counts = torch.zeros_like(world.logits).index_put_(
        (world.source_points, world.labels), torch.ones((), dtype=torch.float64), accumulate=True
    )
    labels = counts / counts.sum(dim=-1, keepdim=True)
    points, ratio = world.target_points, world.ratio[world.target_points]
    whole = dual_objective(world.logits[world.source_points], world.labels, world.logits[points], ratio)
    assert_equal(target_potential(world.logits[points], ratio, labels[points]), whole)


def test_a_constant_per_sample_changes_no_gradient() -> None:
    world = FiniteWorld()
    offset = torch.linspace(-9, 9, len(world.logits), dtype=torch.float64)[:, None]
    ratio = world.ratio.clone().requires_grad_()
    before = gradient(target_potential(world.logits, ratio), ratio)
    after = gradient(target_potential(world.logits + offset, ratio), ratio)
    assert_equal(before, after)


def test_gradcheck_of_the_dual() -> None:
    world = FiniteWorld()
    source = world.logits[world.source_points[:4]].requires_grad_()
    target = world.logits[world.target_points[:4]].clone().requires_grad_()
    ratio = world.ratio[world.target_points[:4]].requires_grad_()

    def dual(source_logits: Tensor, target_logits: Tensor, density_ratio: Tensor) -> Tensor:
        return dual_objective(source_logits, world.labels[:4], target_logits, density_ratio)

    assert gradcheck(dual, (source, target, ratio))
