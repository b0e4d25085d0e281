"""Metrics over data that does not fit in memory: update with batches, merge shards, compute once."""

from shiftcal.metrics.streaming.base import StreamingMetric
from shiftcal.metrics.streaming.calibration import (
    StreamingAdaptiveCalibrationError,
    StreamingClasswiseCalibrationError,
    StreamingExpectedCalibrationError,
    StreamingReliabilityCurve,
)
from shiftcal.metrics.streaming.correctness import (
    StreamingAccuracy,
    StreamingMeanPerClassAccuracy,
    StreamingPerClassAccuracy,
)
from shiftcal.metrics.streaming.proper_scores import StreamingBrierScore, StreamingNegativeLogLikelihood
from shiftcal.metrics.streaming.selective import StreamingErrorDetectionAuroc, StreamingRiskCoverageCurve

__all__ = [
    "StreamingAccuracy",
    "StreamingAdaptiveCalibrationError",
    "StreamingBrierScore",
    "StreamingClasswiseCalibrationError",
    "StreamingErrorDetectionAuroc",
    "StreamingExpectedCalibrationError",
    "StreamingMeanPerClassAccuracy",
    "StreamingMetric",
    "StreamingNegativeLogLikelihood",
    "StreamingPerClassAccuracy",
    "StreamingReliabilityCurve",
    "StreamingRiskCoverageCurve",
]
