"""What holds of every estimator on data that is hard on it: a share comes out."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from shiftcal.target.estimators import ESTIMATORS
from shiftcal.target.evidence import ObservedRows, ShiftEvidence
from shiftcal.target.rule import TrustRule

pytestmark = pytest.mark.usefixtures("coarse_estimate")


def rows(num_rows: int, *, scale: float = 3.0, moved: float = 0.0, seed: int = 0) -> ObservedRows:
    generator = torch.Generator().manual_seed(seed)
    values = torch.randn(num_rows, 7, generator=generator, dtype=torch.float64)
    return ObservedRows(scale * values[:, :3], torch.sigmoid(values[:, 3]), values[:, 4:] + moved)


SOURCE, TARGET, LABELS = rows(40), rows(30, moved=1, seed=1), torch.arange(40) % 3
CASES: dict[str, tuple[ObservedRows, Tensor, ObservedRows]] = {
    "huge logits": (rows(40, scale=1e4), LABELS, rows(30, scale=1e4, seed=1)),
    "one class": (SOURCE, torch.zeros_like(LABELS), TARGET),
    "one row": (rows(1), LABELS[:1], rows(1, seed=1)),
    "equal rows": (
        ObservedRows(torch.zeros(40, 3).double(), torch.full((40,), 0.5).double(), torch.ones(40, 2).double()),
        LABELS,
        ObservedRows(torch.zeros(30, 3).double(), torch.full((30,), 0.5).double(), torch.ones(30, 2).double()),
    ),
    "certain domains": (
        replace(SOURCE, target_probability=torch.zeros(40).double()),
        LABELS,
        replace(TARGET, target_probability=torch.ones(30).double()),
    ),
    "far away": (SOURCE, LABELS, rows(30, moved=1e6, seed=1)),
}


@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.parametrize("case", CASES)
def test_the_estimate_is_a_share(name: str, case: str) -> None:
    source, labels, target = CASES[case]
    estimate = ESTIMATORS[name]().estimate(ShiftEvidence(source, labels, target))
    assert 0 <= estimate <= 1


def test_a_purity_far_below_any_is_no_reliability_and_no_overflow() -> None:
    assert TrustRule().cluster_reliability(-1e9) == pytest.approx(0)
    assert TrustRule().cluster_reliability(1e9) == 1
