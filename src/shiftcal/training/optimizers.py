"""Optimisers and schedules from a method's plans."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch.optim.lr_scheduler import LambdaLR

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


def build_schedule(plan: OptimizerPlan, optimizer: torch.optim.Optimizer, num_steps: int) -> LambdaLR:
    """A schedule over the whole training, counted in steps."""
    factor = schedule_factor(plan.schedule)
    scheduled = LambdaLR(optimizer, lambda step: factor(step / num_steps))
    # A method in stages has optimisers that stand still at first, while their schedules move: torch takes that for a
    # mistake, unless it has seen a step. One without gradients changes nothing.
    optimizer.zero_grad()
    optimizer.step()
    return scheduled


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
