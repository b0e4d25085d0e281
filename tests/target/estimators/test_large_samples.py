"""Of many rows estimates are made from a sample, which goes by the place of rows: it matters little which one."""

import pytest
import torch
from torch import Tensor

from shiftcal.target.estimators import ESTIMATORS
from shiftcal.target.evidence import ObservedRows, ShiftEvidence

NUM_ROWS = 4_500
# Two standard errors of a share of 0.86 among the 2,000 rows of the smallest sample, of both orders: 0.022.
TOLERANCE = 0.022


def features(labels: Tensor, moved: float) -> Tensor:
    rows = 2 * torch.eye(3, 4, dtype=torch.float64)[labels]
    rows += torch.randn(rows.shape, generator=torch.Generator().manual_seed(round(moved)), dtype=torch.float64)
    rows[:, 3] += moved
    return rows


def shuffled(seed: int) -> Tensor:
    return torch.randperm(NUM_ROWS, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("name", ["combined", "confidence-optimal-transport", "second-model-agreement"])
def test_rows_in_another_order(name: str) -> None:
    """The others look at all rows, or are part of the first."""
    labels = torch.arange(NUM_ROWS) % 3
    source, target = features(labels, 0), features(labels, 1)

    def estimate(order: Tensor, target_order: Tensor) -> float:
        own, others = (
            ObservedRows(2 * rows[:, :3], torch.full((NUM_ROWS,), 0.5, dtype=torch.float64), rows)
            for rows in (source[order], target[target_order])
        )
        return ESTIMATORS[name]().estimate(ShiftEvidence(own, labels[order], others))

    assert estimate(shuffled(0), shuffled(1)) == pytest.approx(estimate(shuffled(2), shuffled(3)), abs=TOLERANCE)
