"""How the metrics are called and written in tables."""

from __future__ import annotations

import math
from typing import NamedTuple

from shiftcal.metrics import METRICS

MISSING = "–"


class MetricName(NamedTuple):
    """One metric of `shiftcal.metrics.METRICS` as a column of a table."""

    key: str
    label: str
    is_percentage: bool = False
    """Written as 81.2 (per cent) instead of 0.812."""
    of_source: bool = False

    @property
    def column(self) -> str:
        """Its name among the numbers of a comparison, which are the target's unless they say otherwise."""
        return f"source_{self.key}" if self.of_source else self.key

    @property
    def higher_is_better(self) -> bool:
        """The direction that is better."""
        return bool(METRICS[self.key].higher_is_better)

    @property
    def meaning(self) -> str:
        """What the metric is, in one line."""
        return METRICS[self.key].doc

    @property
    def heading(self) -> str:
        """Label, unit and the direction that is better."""
        unit = " %" if self.is_percentage else ""
        return f"{self.label}{unit} {'↑' if self.higher_is_better else '↓'}"

    def written(self, value: float) -> str:
        """A value with the digits that suit this metric; a dash for NaN."""
        if math.isnan(value):
            return MISSING
        return f"{100 * value:.1f}" if self.is_percentage else f"{value:.3f}"


_ACCURACY = MetricName("accuracy", "Accuracy", is_percentage=True)
_PROBABILISTIC = (
    MetricName("expected_calibration_error", "ECE"),
    MetricName("brier_score", "Brier"),
    MetricName("negative_log_likelihood", "NLL"),
)
COMPARED_METRICS = (
    _ACCURACY,
    MetricName("mean_per_class_accuracy", "Per class", is_percentage=True),
    *_PROBABILISTIC,
    MetricName("accuracy", "Source accuracy", is_percentage=True, of_source=True),
)
LEARNING_METRICS = (_ACCURACY, *_PROBABILISTIC[:2])
REPORTED_METRICS = (_ACCURACY, *_PROBABILISTIC, MetricName("error_detection_auroc", "Error AUROC"))
