"""What a model keeps of source rows, so that later data can be compared with them as the target was in training."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from shiftcal.calibrators.base import CalibrationData, Judged
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
    training: tuple[Tensor, ...] = ()
    """Logits, density ratio, structure and labels of rows that were trained on."""
    judged_training: tuple[Tensor, ...] = ()
    """As `judged`, of these."""
    is_sample: bool = False
    """Whether there were more rows than these, so that an estimate may differ a little from that of training."""

    def compared_with(self, target: Outputs, judged: tuple[Tensor, ...] | None, **settings: Any) -> CalibrationData:
        """What the accuracy on other rows is estimated from, the same as for the target of training.

        Args:
            target: what the model says of these rows, before calibration.
            judged: as of `Method.judged_outputs`, of these rows.
            settings: further fields of the data.
        """
        training, labels = None, None
        if self.training:
            *said, labels = self.training
            training = Outputs(*said)
        return CalibrationData(
            held_out=Outputs(self.logits, self.density_ratio, self.structure),
            held_out_labels=self.labels,
            target=target,
            training=training,
            training_labels=labels,
            judged=None if judged is None else Judged(self.judged_training, self.judged or (), judged),
            **settings,
        )

    def input_checks(self, inputs: Inputs) -> InputChecks | None:
        """The columns of other inputs against these; None where there are none to compare."""
        found = inputs.subset(sampled_rows(len(inputs))).columns()
        if self.columns is None or found is None:
            return None
        reference = InputReference(self.columns.numpy(), self.column_names)
        return reference.checks(found.values.astype(np.float64), found.names)


def held_out_rows(data: CalibrationData) -> HeldOut:
    """A sample of the rows that a model was calibrated with."""
    num_trained = 0 if data.training_labels is None else len(data.training_labels)
    num_held_out = len(data.held_out_labels)
    rows, trained = sampled_rows(num_held_out, _MOST_ROWS), sampled_rows(num_trained, _MOST_ROWS)
    outputs, judged = data.held_out, data.judged
    columns = None if data.held_out_inputs is None else data.held_out_inputs.columns()
    training: tuple[Tensor, ...] = ()
    if data.training is not None and data.training_labels is not None:
        said = data.training
        training = (said.logits, said.density_ratio, said.structure, data.training_labels)
    return HeldOut(
        logits=outputs.logits[rows],
        density_ratio=outputs.density_ratio[rows],
        structure=outputs.structure[rows],
        labels=data.held_out_labels[rows],
        judged=None if judged is None else tuple(part[rows] for part in judged.held_out),
        columns=None if columns is None else torch.from_numpy(columns.values[rows].astype(np.float64)),
        column_names=None if columns is None else columns.names,
        training=tuple(part[trained] for part in training),
        judged_training=() if judged is None else tuple(part[trained] for part in judged.training),
        is_sample=max(num_held_out, num_trained) > _MOST_ROWS,
    )
