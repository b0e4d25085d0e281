"""Proper scoring rules: lower is better, and the true probabilities alone are best."""

from __future__ import annotations

import numpy as np

from shiftcal.metrics.checks import Array, CheckedPredictions, FloatArray, check_predictions, row_blocks

SMALLEST_PROBABILITY = float(np.finfo(np.float64).tiny)


def brier_score(probabilities: Array, labels: Array) -> float:
    r"""Return the mean over samples of the squared distance to the one-hot label, summed over classes.

    .. math:: \frac{1}{N} \sum_i \sum_k (p_{ik} - 1[y_i = k])^2

    It lies in [0, 2]; with two classes it is twice the one-column score of some other libraries.

    Shapes: probabilities (N, C), labels (N,). Reference: Brier, Verification of forecasts expressed in terms
    of probability, Monthly Weather Review 78 (1950).

    Raises:
        InvalidInputError: see `shiftcal.metrics.checks.check_predictions`.

    Example:
        >>> import numpy as np
        >>> brier_score(np.array([[1.0, 0.0], [0.5, 0.5]]), np.array([0, 1]))
        0.25
    """
    return mean_from_totals(brier_totals(check_predictions(probabilities, labels)))


def negative_log_likelihood(probabilities: Array, labels: Array) -> float:
    r"""Return the mean negative natural logarithm of the probability given to the label.

    .. math:: -\frac{1}{N} \sum_i \log \max(p_{i y_i}, \epsilon)

    The clip epsilon is the smallest positive normal float64, 2.2e-308. A label that was given probability 0
    thus costs 708.4 nats instead of infinity: a mean in the tens or hundreds tells of such samples.

    Shapes: probabilities (N, C), labels (N,). Reference: Gneiting & Raftery, Strictly proper scoring rules,
    prediction, and estimation, JASA 102 (2007).

    Raises:
        InvalidInputError: see `shiftcal.metrics.checks.check_predictions`.

    Example:
        >>> import numpy as np
        >>> round(negative_log_likelihood(np.array([[1.0, 0.0], [0.5, 0.5]]), np.array([0, 1])), 6)
        0.346574
        >>> round(negative_log_likelihood(np.array([[1.0, 0.0]]), np.array([1])), 1)
        708.4
    """
    return mean_from_totals(log_likelihood_totals(check_predictions(probabilities, labels)))


def brier_totals(predictions: CheckedPredictions) -> FloatArray:
    """Return the sum of the Brier scores and the number of samples (2,): additive over samples."""
    sums = []
    for rows in row_blocks(predictions.num_samples, predictions.num_classes):
        difference = predictions.probabilities[rows].astype(np.float64)
        difference[np.arange(len(difference)), predictions.labels[rows]] -= 1
        sums.append(np.dot(difference.ravel(), difference.ravel()))
    return np.array([np.sum(sums), predictions.num_samples])


def log_likelihood_totals(predictions: CheckedPredictions) -> FloatArray:
    """Return the sum of the negative log-likelihoods and the number of samples (2,)."""
    clipped = np.maximum(predictions.at_class(predictions.labels), SMALLEST_PROBABILITY)
    return np.array([-np.log(clipped).sum(), predictions.num_samples])


def mean_from_totals(totals: FloatArray) -> float:
    """Return sum / count."""
    return float(totals[0] / totals[1])
