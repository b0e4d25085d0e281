"""Accuracy: overall, per class and averaged over classes."""

from __future__ import annotations

import numpy as np

from shiftcal.metrics.checks import Array, CheckedPredictions, FloatArray, check_predictions


def accuracy(probabilities: Array, labels: Array) -> float:
    r"""Return the fraction of samples whose most probable class is the label.

    .. math:: \frac{1}{N} \sum_i 1[\arg\max_k p_{ik} = y_i]

    Of equally probable classes the first one counts as predicted.

    Shapes: probabilities (N, C), labels (N,). Reference: Hastie, Tibshirani & Friedman, The Elements of
    Statistical Learning (2009), section 7.2.

    Raises:
        InvalidInputError: see `shiftcal.metrics.checks.check_predictions`.

    Example:
        >>> import numpy as np
        >>> accuracy(np.array([[0.9, 0.1], [0.8, 0.2], [0.3, 0.7], [0.6, 0.4]]), np.array([0, 0, 1, 1]))
        0.75
    """
    return overall_accuracy(class_totals(check_predictions(probabilities, labels)))


def per_class_accuracy(probabilities: Array, labels: Array) -> FloatArray:
    r"""Return the accuracy on the samples of each class (its recall), NaN for classes without samples.

    .. math:: a_k = \frac{\sum_i 1[y_i = k]\, 1[\arg\max_j p_{ij} = k]}{\sum_i 1[y_i = k]}

    Shapes: probabilities (N, C), labels (N,), result (C,). Reference: Peng et al., VisDA: The Visual Domain
    Adaptation Challenge (2017), which reports it.

    Raises:
        InvalidInputError: see `shiftcal.metrics.checks.check_predictions`.

    Example:
        >>> import numpy as np
        >>> per_class_accuracy(np.array([[0.9, 0.1, 0.0], [0.3, 0.7, 0.0], [0.6, 0.4, 0.0]]), np.array([0, 1, 1]))
        array([1. , 0.5, nan])
    """
    return class_accuracies(class_totals(check_predictions(probabilities, labels)))


def mean_per_class_accuracy(probabilities: Array, labels: Array) -> float:
    r"""Return the mean of the accuracies of the classes that occur among the labels.

    .. math:: \frac{1}{|K|} \sum_{k \in K} a_k, \quad K = \{k : \exists i,\ y_i = k\}

    Shapes: probabilities (N, C), labels (N,). Reference: Peng et al., VisDA: The Visual Domain Adaptation
    Challenge (2017).

    Raises:
        InvalidInputError: see `shiftcal.metrics.checks.check_predictions`.

    Example:
        >>> import numpy as np
        >>> mean_per_class_accuracy(np.array([[0.9, 0.1], [0.3, 0.7], [0.6, 0.4]]), np.array([0, 1, 1]))
        0.75
    """
    return mean_class_accuracy(class_totals(check_predictions(probabilities, labels)))


def class_totals(predictions: CheckedPredictions) -> FloatArray:
    """Return the number of samples and of right answers of each class (2, C): additive over samples."""
    size = predictions.num_classes
    right = predictions.labels[predictions.correct]
    counts = [np.bincount(predictions.labels, minlength=size), np.bincount(right, minlength=size)]
    return np.stack(counts).astype(np.float64)


def overall_accuracy(totals: FloatArray) -> float:
    """Return the accuracy from `class_totals`."""
    count, right = totals.sum(axis=1)
    return float(right / count)


def class_accuracies(totals: FloatArray) -> FloatArray:
    """Return the accuracy of each class (C,) from `class_totals`, NaN for absent classes."""
    count, right = totals
    # NaN, and no warning, where a class is absent.
    accuracies: FloatArray = right / np.where(count > 0, count, np.nan)
    return accuracies


def mean_class_accuracy(totals: FloatArray) -> float:
    """Return the mean accuracy of the present classes from `class_totals`."""
    return float(class_accuracies(totals)[totals[0] > 0].mean())
