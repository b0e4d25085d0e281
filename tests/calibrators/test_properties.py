"""What holds of every calibrator on data that is hard on it: probabilities come out, and a row stands for itself."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from shiftcal.calibrators import CALIBRATORS
from shiftcal.calibrators.base import CalibrationData
from shiftcal.core.errors import InvalidInputError
from shiftcal.data.inputs import ArrayInputs, Inputs
from shiftcal.methods.base import Outputs

pytestmark = pytest.mark.usefixtures("coarse_estimate")


def outputs(num_rows: int, num_classes: int, *, scale: float = 3.0, moved: float = 0.0, seed: int = 0) -> Outputs:
    generator = torch.Generator().manual_seed(seed)
    logits = scale * torch.randn(num_rows, num_classes, generator=generator)
    return Outputs(
        logits,
        torch.exp(torch.randn(num_rows, generator=generator)),
        torch.randn(num_rows, 3, generator=generator) + moved,
    )


def data_of(source: Outputs, labels: Tensor, target: Outputs | None) -> CalibrationData:
    def predict(inputs: Inputs) -> Outputs:
        values = inputs.fetch(np.arange(len(inputs), dtype=np.int64))
        return Outputs(values, torch.ones(len(values)), values)

    return CalibrationData(
        held_out=source,
        held_out_labels=labels,
        target=target,
        num_classes=source.logits.shape[1],
        held_out_inputs=ArrayInputs(source.logits.float()),
        predict=predict,
    )


def changed(said: Outputs, **changes: Any) -> Outputs:
    return said._replace(**changes)


SOURCE, TARGET = outputs(40, 3), outputs(30, 3, moved=1, seed=1)
LABELS = torch.arange(40) % 3
RARE = torch.zeros(40, dtype=torch.int64)
RARE[-1] = 1

CASES: dict[str, tuple[Outputs, Tensor, Outputs]] = {
    "float16": (Outputs(*(v.half() for v in SOURCE[:3])), LABELS, Outputs(*(v.half() for v in TARGET[:3]))),
    "bfloat16": (Outputs(*(v.bfloat16() for v in SOURCE[:3])), LABELS, Outputs(*(v.bfloat16() for v in TARGET[:3]))),
    "float64": (Outputs(*(v.double() for v in SOURCE[:3])), LABELS, Outputs(*(v.double() for v in TARGET[:3]))),
    "huge logits": (outputs(40, 3, scale=1e4), LABELS, outputs(30, 3, scale=1e4, seed=1)),
    "tiny logits": (outputs(40, 3, scale=1e-6), LABELS, outputs(30, 3, scale=1e-6, seed=1)),
    "one class": (SOURCE, torch.zeros(40, dtype=torch.int64), TARGET),
    "a rare class": (SOURCE, RARE, TARGET),
    "one row": (outputs(1, 3), LABELS[:1], outputs(1, 3, seed=1)),
    "equal rows": (
        Outputs(*(value[:1].expand_as(value) for value in SOURCE[:3])),
        LABELS,
        Outputs(*(value[:1].expand_as(value) for value in TARGET[:3])),
    ),
    "extreme ratios": (
        changed(SOURCE, density_ratio=torch.logspace(-30, 30, 40)),
        LABELS,
        changed(TARGET, density_ratio=torch.logspace(-30, 30, 30)),
    ),
    "far away": (SOURCE, LABELS, changed(TARGET, features=1e6 * TARGET.features)),
}


@pytest.mark.parametrize("name", [name for name in CALIBRATORS if name != "target-scaling"])
def test_probabilities_come_out_and_a_row_alone_is_as_in_its_batch(name: str) -> None:
    calibrator = CALIBRATORS[name]()
    for case, (source, labels, target) in CASES.items():
        if name == "matrix" and case in ("float16", "float64", "tiny logits", "equal rows"):
            continue  # it takes a second of each, and these are nothing new to it
        if case == "one row" and name in ("importance-weighted-temperature", "cpcs", "transcal"):
            with pytest.raises(InvalidInputError, match="at least 2 rows of each domain"):
                calibrator.fit(data_of(source, labels, target))
            continue
        state = calibrator.fit(data_of(source, labels, target))
        calibrated = calibrator.calibrate(target, state).double()
        assert calibrated.shape == target.logits.shape
        assert torch.isfinite(torch.softmax(calibrated, dim=-1)).all(), case
        assert torch.isfinite(calibrator.density_ratio(target, state)).all(), case
        alone = calibrator.calibrate(Outputs(*(value[-1:] for value in target[:3])), state).double()
        torch.testing.assert_close(alone.softmax(-1), calibrated[-1:].softmax(-1), atol=1e-5, rtol=0, msg=case)


@pytest.mark.parametrize("name", ["far away", "extreme ratios", "a rare class", "one class"])
def test_target_scaling_on_data_that_is_hard_on_it(name: str) -> None:
    source, labels, target = CASES[name]
    calibrator = CALIBRATORS["target-scaling"]()
    state = calibrator.fit(data_of(source, labels, target))
    calibrated = calibrator.calibrate(target, state).double()
    assert torch.isfinite(calibrated.softmax(-1)).all()
    alone = calibrator.calibrate(Outputs(*(value[-1:] for value in target[:3])), state).double()
    torch.testing.assert_close(alone.softmax(-1), calibrated[-1:].softmax(-1), atol=1e-5, rtol=0)
