"""Streaming forms of `shiftcal.metrics.proper_scores`, exact."""

from __future__ import annotations

from shiftcal.metrics.checks import CheckedPredictions, FloatArray
from shiftcal.metrics.proper_scores import brier_totals, log_likelihood_totals, mean_from_totals
from shiftcal.metrics.streaming.base import StreamingMetric


class StreamingBrierScore(StreamingMetric[float]):
    """`brier_score` over batches, exact.

    Example:
        >>> import numpy as np
        >>> metric = StreamingBrierScore().update(np.array([[1.0, 0.0]]), np.array([0]))
        >>> metric.update(np.array([[0.5, 0.5]]), np.array([1])).compute()
        0.25
    """

    def _batch_totals(self, predictions: CheckedPredictions) -> FloatArray:
        return brier_totals(predictions)

    def _result(self, totals: FloatArray) -> float:
        return mean_from_totals(totals)


class StreamingNegativeLogLikelihood(StreamingMetric[float]):
    """`negative_log_likelihood` over batches, exact, with the same clip at 2.2e-308.

    Example:
        >>> import numpy as np
        >>> metric = StreamingNegativeLogLikelihood().update(np.array([[1.0, 0.0]]), np.array([0]))
        >>> round(metric.update(np.array([[0.5, 0.5]]), np.array([1])).compute(), 6)
        0.346574
    """

    def _batch_totals(self, predictions: CheckedPredictions) -> FloatArray:
        return log_likelihood_totals(predictions)

    def _result(self, totals: FloatArray) -> float:
        return mean_from_totals(totals)
