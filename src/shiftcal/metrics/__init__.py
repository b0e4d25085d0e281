"""How right, how calibrated and how trustworthy are probabilities: pure functions and their streaming forms.

Every function takes probabilities (N, C) and integer labels (N,), as NumPy arrays or torch tensors of any float
type and device, and sums in float64. Logits are never guessed: rows that do not sum to 1 are an error.
"""

from shiftcal.metrics.calibration import (
    ReliabilityCurve,
    adaptive_calibration_error,
    classwise_calibration_error,
    expected_calibration_error,
    reliability_curve,
)
from shiftcal.metrics.correctness import accuracy, mean_per_class_accuracy, per_class_accuracy
from shiftcal.metrics.proper_scores import brier_score, negative_log_likelihood
from shiftcal.metrics.registry import METRICS, MetricInfo, compute_metrics
from shiftcal.metrics.selective import (
    RiskCoverageCurve,
    area_under_risk_coverage,
    error_detection_auroc,
    risk_coverage_curve,
)
from shiftcal.metrics.streaming import (
    StreamingAccuracy,
    StreamingAdaptiveCalibrationError,
    StreamingBrierScore,
    StreamingClasswiseCalibrationError,
    StreamingErrorDetectionAuroc,
    StreamingExpectedCalibrationError,
    StreamingMeanPerClassAccuracy,
    StreamingMetric,
    StreamingNegativeLogLikelihood,
    StreamingPerClassAccuracy,
    StreamingReliabilityCurve,
    StreamingRiskCoverageCurve,
)

__all__ = [
    "METRICS",
    "MetricInfo",
    "ReliabilityCurve",
    "RiskCoverageCurve",
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
    "accuracy",
    "adaptive_calibration_error",
    "area_under_risk_coverage",
    "brier_score",
    "classwise_calibration_error",
    "compute_metrics",
    "error_detection_auroc",
    "expected_calibration_error",
    "mean_per_class_accuracy",
    "negative_log_likelihood",
    "per_class_accuracy",
    "reliability_curve",
    "risk_coverage_curve",
]
