"""What to label next, for models of any make."""

from __future__ import annotations

from typing import Any

import numpy as np

from shiftcal.target.few_labels import LabelPlan, plan_labels


def rank_for_labelling(calibrated: Any, X: Any, *, seed: int = 0) -> LabelPlan:
    """Rows in the order in which their labels tell most about the accuracy on all of them.

    Args:
        calibrated: whose `predict_proba` can be trusted on these rows: a `ShiftCalibrator` or `AdaptiveClassifier`.
        X: rows without labels.
        seed: of the ranking, which is a random one: that is what makes the estimate right on the average.

    Returns:
        `plan.order[:n]` are the rows to label; `plan.estimate(labels)` takes their labels, in that order, and gives
        the accuracy on all rows with an interval.
    """
    probabilities = np.asarray(calibrated.predict_proba(X))
    best = probabilities.argmax(axis=1)
    return plan_labels(np.asarray(calibrated.classes_)[best], probabilities.max(axis=1), seed)
