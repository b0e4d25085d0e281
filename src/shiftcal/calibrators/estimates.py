"""What to expect of a model on rows without labels: target scaling of these rows, and the metrics that follow."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace

import torch

from shiftcal.calibrators.base import CalibrationData
from shiftcal.calibrators.target_scaling import TargetScaling
from shiftcal.methods.base import Outputs
from shiftcal.target.input_checks import InputChecks
from shiftcal.target.performance import Estimate, expected_performance


def estimate_performance(
    data: CalibrationData,
    given: Outputs,
    scaling: TargetScaling,
    classes: tuple[Hashable, ...],
    *,
    inputs: InputChecks | None = None,
    looked_at: str | None = None,
) -> Estimate:
    """The metrics to expect.

    Args:
        data: what the model says of held-out source rows and of these rows, before any calibration.
        given: of these rows, the outputs that metrics are of.
        scaling: the options of the estimate.
        classes: in the order of the columns.
        inputs: their columns against those of the source, where they are a table.
        looked_at: what the features are, in words.
    """
    assert data.target is not None
    state, found = scaling.fit(data), scaling.diagnose(data)
    assert found is not None
    found = replace(found, inputs=inputs, looked_at=looked_at)
    trusted = torch.softmax(scaling.calibrate(data.target, state).double(), dim=-1)
    return expected_performance(torch.softmax(given.logits.double(), dim=-1).numpy(), trusted.numpy(), found, classes)
