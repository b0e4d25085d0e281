"""Observed rows with known answers, for tests of what can be known of a target."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from shiftcal.target.evidence import ObservedRows, ShiftEvidence

CLASSES, DIM = 4, 8
Rows = tuple[ObservedRows, Tensor]
MakeRows = Callable[..., Rows]
MakeEvidence = Callable[..., ShiftEvidence]


def observed(
    num_rows: int,
    *,
    wrong: float = 0.0,
    log_ratio: float = 0.0,
    spread: float = 0.5,
    least_margin: float = 5,
    moved: float = 0.0,
    seed: int = 0,
) -> Rows:
    """Clusters by class; a share of the rows has logits that name the wrong class with the same confidence.

    A lower margin than the source's is how a shift shows in the outputs; features are moved along an axis on which
    no class depends.
    """
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(num_rows) % CLASSES
    noise = torch.randn(num_rows, DIM, generator=generator, dtype=torch.float64)
    features = 5 * torch.eye(CLASSES, DIM, dtype=torch.float64)[labels] + spread * noise
    features[:, -1] += moved
    is_wrong = torch.rand(num_rows, generator=generator) < wrong
    predicted = torch.where(is_wrong, (labels + 1) % CLASSES, labels)
    # The margin varies, as it does in life; it says nothing about being right.
    margin = least_margin + torch.rand(num_rows, 1, generator=generator, dtype=torch.float64)
    logits = margin * torch.nn.functional.one_hot(predicted, CLASSES).double()
    tau = torch.sigmoid(torch.full((num_rows,), -log_ratio, dtype=torch.float64))
    return ObservedRows(logits, tau, features), labels


def chosen(rows: ObservedRows, kept: Tensor) -> ObservedRows:
    """Some of the rows."""
    parts: dict[str, Any] = {name: None if value is None else value[kept] for name, value in vars(rows).items()}
    return replace(rows, **parts)


@pytest.fixture
def make_rows() -> MakeRows:
    return observed


@pytest.fixture
def some_rows() -> Callable[[ObservedRows, Tensor], ObservedRows]:
    return chosen


@pytest.fixture
def make_evidence() -> MakeEvidence:
    """Evidence of a source that is classified rightly, and of a target; held-out rows are the source unless given."""

    def build(target: ObservedRows, source: Rows | None = None, held_out: Rows | None = None) -> ShiftEvidence:
        source = observed(400, log_ratio=2.0) if source is None else source
        return ShiftEvidence(*source, target) if held_out is None else ShiftEvidence(*held_out, target, *source)

    return build
