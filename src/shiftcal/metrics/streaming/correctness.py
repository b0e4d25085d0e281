"""Streaming forms of `shiftcal.metrics.correctness`, exact."""

from __future__ import annotations

from shiftcal.metrics.checks import CheckedPredictions, FloatArray
from shiftcal.metrics.correctness import class_accuracies, class_totals, mean_class_accuracy, overall_accuracy
from shiftcal.metrics.streaming.base import Result, StreamingMetric


class _ClassTotals(StreamingMetric[Result]):
    """Samples and right answers of each class: (2, C) numbers."""

    def _batch_totals(self, predictions: CheckedPredictions) -> FloatArray:
        return class_totals(predictions)


class StreamingAccuracy(_ClassTotals[float]):
    """`accuracy` over batches, exact.

    Example:
        >>> import numpy as np
        >>> metric = StreamingAccuracy()
        >>> for label in (0, 1):
        ...     _ = metric.update(np.array([[0.9, 0.1]]), np.array([label]))
        >>> metric.compute()
        0.5
    """

    def _result(self, totals: FloatArray) -> float:
        return overall_accuracy(totals)


class StreamingPerClassAccuracy(_ClassTotals[FloatArray]):
    """`per_class_accuracy` over batches, exact: (C,), NaN for classes that never came.

    Example:
        >>> import numpy as np
        >>> metric = StreamingPerClassAccuracy().update(np.array([[0.9, 0.1, 0.0]]), np.array([0]))
        >>> metric.update(np.array([[0.9, 0.1, 0.0]]), np.array([1])).compute()
        array([ 1.,  0., nan])
    """

    def _result(self, totals: FloatArray) -> FloatArray:
        return class_accuracies(totals)


class StreamingMeanPerClassAccuracy(_ClassTotals[float]):
    """`mean_per_class_accuracy` over batches, exact.

    Example:
        >>> import numpy as np
        >>> metric = StreamingMeanPerClassAccuracy().update(np.array([[0.9, 0.1, 0.0]]), np.array([0]))
        >>> metric.update(np.array([[0.9, 0.1, 0.0]]), np.array([1])).compute()
        0.5
    """

    def _result(self, totals: FloatArray) -> float:
        return mean_class_accuracy(totals)
