import pytest
import torch
from torch import nn

from shiftcal.methods.base import OptimizerPlan, Schedule
from shiftcal.training.optimizers import StepSizes, build_optimizer, schedule_factor


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        ("constant", [1, 1, 1, 1]),
        ("cosine", [1, 0.5, 0.1464466, 0]),
        ("cosine-7/16", [1, 0.7730105, 0.5141027, 0.1950903]),
        ("step", [1, 0.1, 0.01, 0.001]),
    ],
)
def test_schedules_at_a_few_points(schedule: Schedule, expected: list[float]) -> None:
    factor = schedule_factor(schedule)
    assert [factor(done) for done in (0.0, 0.5, 0.75, 1.0)] == pytest.approx(expected)


@pytest.mark.parametrize("kind", ["adamw", "sgd"])
def test_schedule_drives_the_step_size(kind: str) -> None:
    plan = OptimizerPlan([nn.Parameter(torch.zeros(1))], kind, 0.1, 0.0, "cosine")  # type: ignore[arg-type]
    optimizer = build_optimizer(plan)
    step_sizes = StepSizes(plan, optimizer, num_steps=10)
    for _ in range(5):
        optimizer.step()
        step_sizes.step()
    assert optimizer.param_groups[0]["lr"] == pytest.approx(0.05)


@pytest.mark.parametrize("kind", ["adamw", "sgd"])
def test_a_schedule_may_move_before_its_optimiser_does(kind: str) -> None:
    """As in methods with stages; and what a network brings along as gradients is not taken for a step."""
    parameter = nn.Parameter(torch.ones(1))
    parameter.grad = torch.ones(1)
    plan = OptimizerPlan([parameter], kind, 0.1, 0.5, "cosine")  # type: ignore[arg-type]
    optimizer = build_optimizer(plan)
    step_sizes = StepSizes(plan, optimizer, num_steps=10)
    step_sizes.step()
    assert parameter.item() == 1
    assert not optimizer.state


def test_a_gradient_of_rounding_size_is_not_blown_up_to_a_step() -> None:
    """Adam divides by the gradient's own size; the number of processes decided about weights without a gradient."""
    parameter = nn.Parameter(torch.zeros(1))
    optimizer = build_optimizer(OptimizerPlan([parameter], "adamw", 0.1, 0.0, "constant"))
    parameter.grad = torch.full((1,), 1e-9)
    optimizer.step()
    assert abs(float(parameter.detach())) < 0.1 / 100
