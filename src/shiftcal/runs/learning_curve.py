"""Learning curves: how right and how calibrated the network is on labelled data, epoch by epoch.

For evaluation only. The labels stay here: the trainer lends its predictions and is not told what they are worth.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

import torch
from torch import Tensor

from shiftcal.analysis import shift_gap
from shiftcal.core.processes import is_main_process
from shiftcal.data.domains import LabelledDomain
from shiftcal.metrics import METRICS
from shiftcal.runs.folder import RunFolder
from shiftcal.training.trainer import Predict

CURVE_METRICS = ("accuracy", "expected_calibration_error", "brier_score", "negative_log_likelihood")


class LearningCurve:
    """What `fit_model` takes as `watch` to keep a row per epoch in the folder of the run."""

    def __init__(
        self, folder: RunFolder, classes: Sequence[Hashable], test: LabelledDomain, source: LabelledDomain | None
    ) -> None:
        """`source` is what training holds out of it, or test data of its own; None: no columns of the source."""
        self._folder = folder
        domains = {"": test} if source is None else {"": test, "source_": source}
        self._domains = {prefix: (domain.inputs, domain.labels_among(classes)) for prefix, domain in domains.items()}

    def __call__(self, epoch: int, predict: Predict) -> None:
        """Add the row of an epoch: all processes predict, the main one writes."""
        row: dict[str, float] = {"epoch": epoch}
        features = {}
        for prefix, (inputs, labels) in self._domains.items():
            outputs = predict(inputs)
            features[prefix] = outputs.features
            probabilities = torch.softmax(outputs.logits.double(), dim=-1)
            if is_main_process():
                row |= {f"{prefix}{name}": METRICS[name].function(probabilities, labels) for name in CURVE_METRICS}
        if is_main_process():
            gap = self._shift_gap(features)
            if gap is not None:
                row["shift_gap"] = gap
            # A resumed run repeats the epochs since its last checkpoint, and a new one shall not inherit any.
            earlier = [known for known in self._folder.read_learning_curve() if known["epoch"] < epoch]
            self._folder.write_learning_curve([*earlier, row])

    def _shift_gap(self, features: Mapping[str, Tensor]) -> float | None:
        """Between the two domains; None without a source."""
        if len(features) < 2:
            return None
        labels = {prefix: torch.from_numpy(labels) for prefix, (_, labels) in self._domains.items()}
        return shift_gap(features["source_"], labels["source_"], features[""], labels[""])
