"""Every metric that people report, as expected on a target without labels: from probabilities that can be trusted.

With p(x) calibrated on the target, rows of the expected confusion matrix follow, and all else from it:

    confusion[y, k] = mean_target p_y(x) 1[ predicted(x) = k ]

Brier score, log loss and, for two classes, AUROC and average precision are expectations over labels drawn from p(x).
The interval of each metric is between what it would be if the accuracy were at either end of its own interval: p of
the predicted class is moved by a common shift of its log odds until its mean is that accuracy.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import expit, logit
from sklearn.metrics import average_precision_score, roc_auc_score

from shiftcal.target.diagnosis import Diagnosis

_FloatArray = NDArray[np.float64]

# Probabilities beyond which log odds are not written.
_LEAST = 1e-9
# Of the common shift of log odds.
_LARGEST_SHIFT = 40.0


@dataclass(frozen=True)
class Expected:
    """A metric to be expected, and the ends of its 90 % interval; None where there is no interval."""

    value: float
    low: float | None
    high: float | None

    def __str__(self) -> str:
        return f"{self.value:.4f}" + ("" if self.low is None else f" [{self.low:.4f}, {self.high:.4f}]")


@dataclass(frozen=True)
class Estimate:
    """What to expect of a classifier on rows without labels."""

    diagnosis: Diagnosis
    metrics: dict[str, Expected]
    confusion: tuple[tuple[float, ...], ...]
    """Share of rows by true class (first) and predicted class."""
    classes: tuple[Hashable, ...]
    num_rows: int

    @property
    def accuracy(self) -> float:
        """To be expected on these rows."""
        return self.diagnosis.accuracy

    @property
    def interval(self) -> tuple[float, float] | None:
        """That holds the accuracy with a probability of 90 %."""
        return self.diagnosis.interval

    @property
    def shifted_share(self) -> float:
        """Of the rows that are not as on the source."""
        return self.diagnosis.shifted_share

    @property
    def kind_of_shift(self) -> str:
        """none, prior, part, covariate, new classes or outside."""
        return self.diagnosis.kind_of_shift()

    @property
    def verdict(self) -> str:
        """In words, what to expect and how far to believe it."""
        return self.diagnosis.verdict()

    def as_plain(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        prior = self.diagnosis.prior_shift
        return {
            "num_rows": self.num_rows,
            "verdict": self.verdict,
            "kind_of_shift": self.kind_of_shift,
            "shifted_share": self.shifted_share,
            "new_classes": None if self.diagnosis.new_classes is None else asdict(self.diagnosis.new_classes),
            "looked_at": self.diagnosis.looked_at,
            "odd_inputs": []
            if self.diagnosis.inputs is None
            else [asdict(f) for f in self.diagnosis.inputs.findings],
            "metrics": {name: asdict(metric) for name, metric in self.metrics.items()},
            "classes": [str(label) for label in self.classes],
            "class_frequencies": None if prior is None else list(prior.frequencies),
            "confusion": [list(row) for row in self.confusion],
            "witnesses": None if self.diagnosis.witnesses is None else asdict(self.diagnosis.witnesses),
        }


def expected_performance(
    given: _FloatArray, calibrated: _FloatArray, diagnosis: Diagnosis, classes: tuple[Hashable, ...]
) -> Estimate:
    """What to expect of probabilities.

    Args:
        given: (N, C) that the metrics are of.
        calibrated: (N, C) of the same rows, that can be trusted.
        diagnosis: of these rows.
        classes: in the order of the columns.
    """
    predicted = given.argmax(axis=1)
    ends = () if diagnosis.interval is None else diagnosis.interval
    found, *bounds = (
        expected_metrics(given, with_accuracy(calibrated, predicted, accuracy))
        for accuracy in (diagnosis.accuracy, *ends)
    )
    metrics = {}
    for name, value in found.items():
        if any(name not in bound for bound in bounds):
            continue  # of one class alone, at an end of the interval
        # Not all metrics grow with the accuracy: what is expected may be below both ends, or above.
        reached = [value, *(bound[name] for bound in bounds)]
        low, high = (min(reached), max(reached)) if bounds else (None, None)
        metrics[name] = Expected(value, low, high)
    confusion = confusion_matrix(with_accuracy(calibrated, predicted, diagnosis.accuracy), predicted)
    return Estimate(diagnosis, metrics, tuple(tuple(row) for row in confusion.tolist()), classes, len(given))


def with_accuracy(calibrated: _FloatArray, predicted: NDArray[np.int64], accuracy: float) -> _FloatArray:
    """Probabilities (N, C) whose mean for the predicted class is an accuracy, the others in proportion."""
    rows = np.arange(len(calibrated))
    own = calibrated[rows, predicted].clip(_LEAST, 1 - _LEAST)

    def surplus(shift: float) -> float:
        return float(expit(logit(own) + shift).mean() - accuracy)

    if surplus(-_LARGEST_SHIFT) >= 0 or surplus(_LARGEST_SHIFT) <= 0:
        moved = np.full(len(own), accuracy)
    else:
        moved = expit(logit(own) + brentq(surplus, -_LARGEST_SHIFT, _LARGEST_SHIFT))
    others = (1 - moved) / (1 - own)
    found: _FloatArray = calibrated * others[:, None]
    found[rows, predicted] = moved
    found /= found.sum(axis=1, keepdims=True)
    return found


def confusion_matrix(probabilities: _FloatArray, predicted: NDArray[np.int64]) -> _FloatArray:
    """Expected share of rows by true and predicted class (C, C)."""
    found = np.zeros((probabilities.shape[1],) * 2)
    np.add.at(found.T, predicted, probabilities)
    return found / len(probabilities)


def expected_metrics(given: _FloatArray, truth: _FloatArray) -> dict[str, float]:
    """Metrics of probabilities (N, C), over labels that are drawn from others (N, C).

    AUROC and average precision are those of two classes that both occur.
    """
    confusion = confusion_matrix(truth, given.argmax(axis=1))
    hits, of_class, of_prediction = np.diag(confusion), confusion.sum(axis=1), confusion.sum(axis=0)
    occurs = of_class > _LEAST
    recall = hits[occurs] / of_class[occurs]
    found = {
        "accuracy": hits.sum(),
        "balanced_accuracy": recall.mean(),
        "macro_f1": (2 * hits[occurs] / (of_class + of_prediction)[occurs]).mean(),
        "brier_score": (given**2).sum(axis=1).mean() + 1 - 2 * (truth * given).sum(axis=1).mean(),
        "negative_log_likelihood": -(truth * np.log(given.clip(_LEAST))).sum(axis=1).mean(),
    }
    if given.shape[1] == 2 and occurs.all():
        labels = np.repeat([0, 1], len(given))
        scores, weights = np.tile(given[:, 1], 2), truth.T.ravel()
        found["auroc"] = roc_auc_score(labels, scores, sample_weight=weights)
        found["average_precision"] = average_precision_score(labels, scores, sample_weight=weights)
    return {name: float(value) for name, value in found.items()}
