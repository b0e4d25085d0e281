"""Optimisers and schedules from a method's plans."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from shiftcal.methods.base import OptimizerPlan, Schedule


def build_optimizer(plan: OptimizerPlan, *, fused: bool = True) -> torch.optim.Optimizer:
    """AdamW, or SGD with Nesterov momentum 0.9; fused: in one pass over weights, which parts of them can't have."""
    if plan.kind == "adamw":
        # A gradient that is zero but for rounding must not be blown up to a full step: with torch's own epsilon of
        # 1e-8 it is, and the result depends on the order of summation, hence on the number of processes.
        return torch.optim.AdamW(
            plan.parameters, lr=plan.learning_rate, weight_decay=plan.weight_decay, eps=1e-6, fused=fused
        )
    return torch.optim.SGD(
        plan.parameters,
        lr=plan.learning_rate,
        weight_decay=plan.weight_decay,
        momentum=0.9,
        nesterov=True,
        fused=fused,
    )


class StepSizes:
    """Lets the step sizes of an optimiser fall over the whole training, counted in steps.

    Torch's own schedulers wrap the optimiser's step, which takes as long as the update of a small layer, and take it
    for a mistake that in methods with stages an optimiser stands still at first while its schedule moves.
    """

    def __init__(self, plan: OptimizerPlan, optimizer: torch.optim.Optimizer, num_steps: int) -> None:
        self._optimizer = optimizer
        self._first = [group["lr"] for group in optimizer.param_groups]
        self._factor = schedule_factor(plan.schedule)
        self._num_steps = num_steps
        self._step = 0

    def step(self) -> None:
        """After a step of training."""
        self.move_to(self._step + 1)

    def move_to(self, step: int) -> None:
        """As after so many steps."""
        self._step = step
        factor = self._factor(step / self._num_steps)
        for group, first in zip(self._optimizer.param_groups, self._first, strict=True):
            group["lr"] = first * factor


def schedule_factor(schedule: Schedule) -> Callable[[float], float]:
    """Step size relative to the first one, by the share of the training that is done (0 to 1)."""
    factors: dict[Schedule, Callable[[float], float]] = {
        "constant": lambda _: 1.0,
        "cosine": lambda done: (1 + math.cos(math.pi * min(done, 1.0))) / 2,
        # cos(7 pi t / 16): the schedule of FixMatch and those that follow it; it ends at a fifth.
        "cosine-7/16": lambda done: math.cos(7 * math.pi / 16 * min(done, 1.0)),
        "step": lambda done: 0.1 ** math.floor(min(done, 1.0) * 3),
    }
    return factors[schedule]
