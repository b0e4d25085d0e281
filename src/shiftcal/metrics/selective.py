"""Selective prediction: does a trust score rank right answers above wrong ones?"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch

from shiftcal.metrics.binning import confidence_ties, occupied, tie_totals
from shiftcal.metrics.checks import Array, FloatArray, check_predictions, check_scores


class RiskCoverageCurve(NamedTuple):
    """Error rate among the most trusted samples: coverage and risk (num_thresholds,), and the area below."""

    coverage: FloatArray
    risk: FloatArray
    area: float


def risk_coverage_curve(probabilities: Array, labels: Array, *, scores: Array | None = None) -> RiskCoverageCurve:
    r"""Return the error rate of the samples that are answered, for each threshold on the trust score.

    .. math:: \mathrm{coverage}(t) = \frac{1}{N} \sum_i 1[s_i \ge t], \quad
              \mathrm{risk}(t) = \frac{\sum_i 1[s_i \ge t]\, 1[\hat y_i \ne y_i]}{\sum_i 1[s_i \ge t]}, \quad
              \mathrm{area} = \frac{1}{N} \sum_{n=1}^{N} \mathrm{risk\ of\ the\ first\ } n

    The score is the top-1 confidence unless `scores` are given (higher = more trusted). There is one point per
    distinct score, by rising coverage: no threshold can part equal scores. In the area each sample of such a
    group counts with the group's mean error, which is its expectation over random orders of the group. So
    nothing depends on the order of the samples.

    Shapes: probabilities (N, C), labels (N,), scores (N,). References: Geifman & El-Yaniv, Selective
    classification for deep neural networks, NeurIPS 2017; Geifman et al., Bias-reduced uncertainty estimation
    for deep neural classifiers, ICLR 2019.

    Raises:
        InvalidInputError: see `shiftcal.metrics.checks.check_predictions` and `check_scores`.

    Example:
        >>> import numpy as np
        >>> probabilities = np.array([[0.9, 0.1], [0.8, 0.2], [0.8, 0.2], [0.6, 0.4]])
        >>> curve = risk_coverage_curve(probabilities, np.array([0, 0, 1, 1]))
        >>> curve.coverage, curve.risk, round(curve.area, 6)
        (array([0.25, 0.75, 1.  ]), array([0.        , 0.33333333, 0.5       ]), 0.270833)
    """
    return risk_coverage_from_groups(_trust_groups(probabilities, labels, scores))


def area_under_risk_coverage(probabilities: Array, labels: Array, *, scores: Array | None = None) -> float:
    r"""Return the area under `risk_coverage_curve`: the mean error rate over all coverages.

    .. math:: \frac{1}{N} \sum_{n=1}^{N} \mathrm{risk\ of\ the\ } n \mathrm{\ most\ trusted\ samples}

    Shapes: probabilities (N, C), labels (N,), scores (N,). Reference: Geifman et al., Bias-reduced
    uncertainty estimation for deep neural classifiers, ICLR 2019.

    Raises:
        InvalidInputError: see `shiftcal.metrics.checks.check_predictions` and `check_scores`.

    Example:
        >>> import numpy as np
        >>> area_under_risk_coverage(np.array([[0.9, 0.1], [0.6, 0.4]]), np.array([0, 1]))
        0.25
    """
    return risk_coverage_from_groups(_trust_groups(probabilities, labels, scores)).area


def error_detection_auroc(probabilities: Array, labels: Array, *, scores: Array | None = None) -> float:
    r"""Return the probability that a right answer is trusted more than a wrong one.

    .. math:: \frac{1}{|R||W|} \sum_{i \in R} \sum_{j \in W} \left(1[s_i > s_j] + \tfrac12 1[s_i = s_j]\right)

    R are the right answers and W the wrong ones; the score is the top-1 confidence unless `scores` are given
    (higher = more trusted). NaN if all answers are right, or all wrong.

    Shapes: probabilities (N, C), labels (N,), scores (N,). Reference: Hendrycks & Gimpel, A baseline for
    detecting misclassified and out-of-distribution examples in neural networks, ICLR 2017.

    Raises:
        InvalidInputError: see `shiftcal.metrics.checks.check_predictions` and `check_scores`.

    Example:
        >>> import numpy as np
        >>> probabilities = np.array([[0.9, 0.1], [0.8, 0.2], [0.8, 0.2], [0.6, 0.4]])
        >>> error_detection_auroc(probabilities, np.array([0, 0, 1, 1]))
        0.875
    """
    return auroc_from_groups(_trust_groups(probabilities, labels, scores))


def risk_coverage_from_groups(totals: FloatArray) -> RiskCoverageCurve:
    """Return the curve from the totals of groups of equal trust in ascending order (3, num_groups)."""
    groups = occupied(totals[:, ::-1])
    errors = groups.samples - groups.hits
    answered, wrong = np.cumsum(groups.samples), np.cumsum(errors)
    risk = wrong / answered
    rate, before = errors / groups.samples, answered - groups.samples
    # Sum over n = before + 1 .. answered of (wrong_before + rate * (n - before)) / n.
    excess = wrong - errors - rate * before
    in_groups = groups.samples * rate + excess * harmonic_difference(before, answered)
    # A group of one needs no harmonic numbers, whose rounding would be multiplied by N.
    area = np.where(groups.samples == 1, risk, in_groups).sum() / answered[-1]
    return RiskCoverageCurve(answered / answered[-1], risk, float(area))


def auroc_from_groups(totals: FloatArray) -> float:
    """Return the AUROC of hits against the rest from totals of groups in ascending order (3, num_groups)."""
    groups = occupied(totals)
    wrong = groups.samples - groups.hits
    pairs = groups.hits.sum() * wrong.sum()
    if pairs == 0:
        return float("nan")
    wrong_below = np.cumsum(wrong) - wrong
    return float((groups.hits * (wrong_below + wrong / 2)).sum() / pairs)


def harmonic_difference(lower: FloatArray, upper: FloatArray) -> FloatArray:
    """Return the sum of 1/n over n = lower + 1 .. upper, elementwise, without listing n."""
    harmonic = [torch.special.digamma(torch.from_numpy(end + 1)).numpy() for end in (lower, upper)]
    difference: FloatArray = harmonic[1] - harmonic[0]
    return difference


def _trust_groups(probabilities: Array, labels: Array, scores: Array | None) -> FloatArray:
    predictions = check_predictions(probabilities, labels)
    if scores is None:
        return confidence_ties(predictions)
    return tie_totals(check_scores(scores, predictions.num_samples), predictions.correct)
