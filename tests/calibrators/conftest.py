"""Calibration data from arrays, for tests of calibrators without a trained network."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from shiftcal.calibrators.base import CalibrationData
from shiftcal.data.inputs import ArrayInputs, Inputs
from shiftcal.methods.base import Outputs

MakeData = Callable[..., CalibrationData]


def _rows(inputs: Inputs) -> Tensor:
    return inputs.fetch(np.arange(len(inputs), dtype=np.int64))


@pytest.fixture
def make_data() -> MakeData:
    """Build data whose model gives its inputs as logits and features, or what `predict` makes of them."""

    def build(
        source: Tensor,
        labels: Tensor,
        target: Tensor | None = None,
        predict: Callable[[Tensor], Tensor] = lambda inputs: inputs,
        density_ratio: Callable[[Tensor], Tensor] = lambda inputs: torch.ones(len(inputs)),
    ) -> CalibrationData:
        def outputs(inputs: Inputs) -> Outputs:
            rows = _rows(inputs)
            return Outputs(predict(rows), density_ratio(rows), rows.flatten(1))

        inputs = ArrayInputs(source)
        return CalibrationData(
            held_out=outputs(inputs),
            held_out_labels=labels,
            target=None if target is None else outputs(ArrayInputs(target)),
            num_classes=predict(source[:1]).shape[1],
            held_out_inputs=inputs,
            predict=outputs,
        )

    return build


def drawn_labels(logits: Tensor, seed: int) -> Tensor:
    """Labels (N,) drawn from the softmax of logits (N, C)."""
    generator = torch.Generator().manual_seed(seed)
    return torch.multinomial(torch.softmax(logits, dim=-1), 1, generator=generator).squeeze(1)


@pytest.fixture
def sample() -> Callable[[int, int], tuple[Tensor, Tensor]]:
    """Logits (N, C) that are twice as large as the labels drawn from them merit."""

    def draw(num_rows: int, num_classes: int) -> tuple[Tensor, Tensor]:
        logits = 3 * torch.randn(num_rows, num_classes, generator=torch.Generator().manual_seed(num_rows))
        return logits, drawn_labels(logits / 2, seed=num_rows)

    return draw
