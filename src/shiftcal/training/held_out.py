"""What a model keeps of source rows that were held out, so that later data can be compared with them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from shiftcal.calibrators.base import CalibrationData
from shiftcal.data.inputs import Inputs
from shiftcal.methods.base import Outputs
from shiftcal.target.input_checks import InputChecks, InputReference
from shiftcal.target.sampling import sampled_rows

# Enough for estimates, and a few megabytes at most.
_MOST_ROWS = 2_000


class HeldOut(NamedTuple):
    """What a model says, before calibration, of held-out source rows."""

    logits: Tensor
    density_ratio: Tensor
    structure: Tensor
    labels: Tensor
    judged: tuple[Tensor, ...] | None
    """As of `Method.judged_outputs`, where that differs from the outputs."""
    columns: Tensor | None = None
    """Their inputs as they came, where these are a table."""
    column_names: tuple[str, ...] | None = None

    @property
    def outputs(self) -> Outputs:
        """As outputs."""
        return Outputs(self.logits, self.density_ratio, self.structure)

    def input_checks(self, inputs: Inputs) -> InputChecks | None:
        """The columns of other inputs against these; None where there are none to compare."""
        found = inputs.subset(sampled_rows(len(inputs))).columns()
        if self.columns is None or found is None:
            return None
        reference = InputReference(self.columns.numpy(), self.column_names)
        return reference.checks(found.values.astype(np.float64), found.names)


def held_out_rows(data: CalibrationData) -> HeldOut:
    """A sample of the rows that a model was calibrated with."""
    rows = sampled_rows(len(data.held_out_labels), _MOST_ROWS)
    outputs = data.held_out
    columns = None if data.held_out_inputs is None else data.held_out_inputs.columns()
    return HeldOut(
        logits=outputs.logits[rows],
        density_ratio=outputs.density_ratio[rows],
        structure=outputs.structure[rows],
        labels=data.held_out_labels[rows],
        judged=None if data.judged is None else tuple(part[rows] for part in data.judged.held_out),
        columns=None if columns is None else torch.from_numpy(columns.values[rows].astype(np.float64)),
        column_names=None if columns is None else columns.names,
    )
