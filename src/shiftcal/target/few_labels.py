"""The accuracy on a target from a few labels: which rows to label, and an interval that needs no model to be right.

Rows whose prediction is in doubt tell most: with p(x) the probability that the prediction is right, the best chance
of a row to be labelled goes with sqrt(p (1 - p)) (Neyman, JRSS 97, 1934). A part of the mean is added, so that rows
that a model is wrongly sure of are met too:

    s(x) = sqrt( p (1 - p) + mean(p (1 - p)) / 10 )

Rows are ranked by u / s, u uniform (sequential Poisson sampling: Ohlsson, Journal of Official Statistics 14, 1998).
The first n of the ranking, for any n, are then a sample in which each row is with a known probability
pi = min(1, n s / sum s). The estimate is the mean of p, corrected by what the labels show (difference estimator:
Saerndal, Swensson, Wretman, "Model Assisted Survey Sampling", 1992, section 6.3; prediction-powered inference:
Angelopoulos et al., Science 382, 2023), with r whether the prediction is right:

    accuracy = mean p + sum_sample (r - p) / pi / sum_sample 1 / pi

It is right on the average whatever p is worth; p only makes it sharper. The interval holds each accuracy t with

    | accuracy - t | <= q sqrt( max( V(t), v ) )

q the quantile of Student's distribution, v the variance that the sample shows and half a standard error of that (a
few rows of small pi make it too small more often than too large), V(t) the one if p were true after a common shift of
its log odds to the mean t, as in Wilson's interval: without it few labels without a single error would leave no
interval.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from scipy.optimize import brentq
from scipy.special import expit, logit

from shiftcal.core.errors import InvalidInputError

_FloatArray = NDArray[np.float64]

_OF_MEAN = 0.1
# Of the standard error of the variance; found by simulation (benchmarks/monitoring/few_labels.py).
_OF_ERROR = 0.5
# Probabilities beyond which log odds are not written, and the largest shift of them.
_LEAST = 1e-6
_LARGEST_SHIFT = 40.0


@dataclass(frozen=True)
class LabelledAccuracy:
    """The accuracy on all rows, from the labels of a few."""

    accuracy: float
    low: float
    high: float
    num_labels: int
    num_rows: int
    level: float
    """With which the interval holds the accuracy."""

    def __str__(self) -> str:
        return (
            f"accuracy {self.accuracy:.1%} ({self.level:.0%} interval: {self.low:.1%} to {self.high:.1%}), from "
            f"{self.num_labels} labels of {self.num_rows} rows"
        )


@dataclass(frozen=True, eq=False)
class LabelPlan:
    """Which rows to label first."""

    order: NDArray[np.int64]
    """(N,) row numbers: label the first n of them, however many you like, and leave none out."""
    predicted: NDArray[Any]
    """(N,) labels that the model gives to the rows."""
    right_probability: _FloatArray
    """(N,) of these being right."""
    sizes: _FloatArray
    """(N,) that chances to be labelled are in proportion to."""

    def estimate(self, labels: Sequence[Any], level: float = 0.9) -> LabelledAccuracy:
        """The accuracy on all rows, from the true labels of the first rows of `order`, in that order.

        Raises:
            InvalidInputError: fewer than two labels, more than rows, or a level that is none.
        """
        num_labels, num_rows = len(labels), len(self.order)
        if not 2 <= num_labels <= num_rows:
            raise InvalidInputError(f"labels: expected from 2 to {num_rows}, got {num_labels}")
        if not 0 < level < 1:
            raise InvalidInputError(f"level: expected a number between 0 and 1, got {level!r}")
        rows = self.order[:num_labels]
        right = np.array([own == label for own, label in zip(self.predicted[rows].tolist(), labels, strict=True)])
        chances = inclusion_probabilities(self.sizes, num_labels)
        weights = 1 / chances[rows]
        residuals = right - self.right_probability[rows]
        correction = float((weights * residuals).sum() / weights.sum())
        accuracy = float(self.right_probability.mean()) + correction
        terms = (1 - chances[rows]) * (weights * (residuals - correction)) ** 2 / weights.sum() ** 2
        seen = num_labels / (num_labels - 1) * terms.sum() + _OF_ERROR * np.sqrt(num_labels) * terms.std()
        quantile = float(stats.t.ppf((1 + level) / 2, num_labels - 1))
        low, high = _score_interval(self.right_probability, chances, accuracy, float(seen), quantile)
        return LabelledAccuracy(min(max(accuracy, 0.0), 1.0), low, high, num_labels, num_rows, level)


def plan_labels(predicted: NDArray[Any], right_probability: _FloatArray, seed: int = 0) -> LabelPlan:
    """Rank rows by how much their labels tell of the accuracy.

    Args:
        predicted: (N,) labels that the model gives.
        right_probability: (N,) of these being right, best such that can be trusted on these rows.
        seed: of the ranking.
    """
    variance = right_probability * (1 - right_probability)
    sizes = np.sqrt(variance + _OF_MEAN * variance.mean() + _LEAST)
    order = np.argsort(np.random.default_rng(seed).random(len(sizes)) / sizes, kind="stable")
    return LabelPlan(order, predicted, right_probability, sizes)


def inclusion_probabilities(sizes: _FloatArray, num_labels: int) -> _FloatArray:
    """pi (N,), at most 1, that add up to the number of labels."""
    is_sure = np.zeros(len(sizes), dtype=bool)
    while True:
        rest = sizes[~is_sure].sum()
        chances = np.where(is_sure, 1.0, (num_labels - is_sure.sum()) * sizes / rest if rest > 0 else 1.0)
        found = (chances >= 1) & ~is_sure
        if not found.any():
            return chances
        is_sure |= found


def _score_interval(
    probability: _FloatArray, chances: _FloatArray, accuracy: float, seen: float, quantile: float
) -> tuple[float, float]:
    log_odds = logit(probability.clip(_LEAST, 1 - _LEAST))
    weights = (1 / chances - 1) / len(probability) ** 2

    def surplus(shift: float, sign: int) -> float:
        moved = expit(log_odds + shift)
        difference = moved - probability
        supposed = ((moved * (1 - moved) + (difference - difference.mean()) ** 2) * weights).sum()
        return float(sign * (accuracy - moved.mean()) - quantile * np.sqrt(max(supposed, seen)))

    def end(sign: int) -> float:
        """Below (1) or above (-1) the estimate."""
        if surplus(-sign * _LARGEST_SHIFT, sign) <= 0:
            return 0.0 if sign > 0 else 1.0
        if surplus(sign * _LARGEST_SHIFT, sign) >= 0:
            return 1.0 if sign > 0 else 0.0
        shift = brentq(surplus, -_LARGEST_SHIFT, _LARGEST_SHIFT, args=(sign,))
        return float(expit(log_odds + shift).mean())

    return end(1), end(-1)
