"""Estimators of the accuracy on a target without its labels: one file each, listed here and nowhere else."""

from __future__ import annotations

from shiftcal.core.errors import UnknownNameError
from shiftcal.target.estimators.average_thresholded_confidence import AverageThresholdedConfidence
from shiftcal.target.estimators.base import AccuracyEstimator
from shiftcal.target.estimators.calibrated_confidence import CalibratedConfidence
from shiftcal.target.estimators.cluster_agreement import ClusterAgreement
from shiftcal.target.estimators.combined import Combined
from shiftcal.target.estimators.confidence_optimal_transport import ConfidenceOptimalTransport
from shiftcal.target.estimators.difference_of_confidences import DifferenceOfConfidences
from shiftcal.target.estimators.importance_weighted_accuracy import ImportanceWeightedAccuracy
from shiftcal.target.estimators.importance_weighted_calibration import ImportanceWeightedCalibration
from shiftcal.target.estimators.label_probability import LabelProbability
from shiftcal.target.estimators.mean_confidence import MeanConfidence
from shiftcal.target.estimators.second_model_agreement import SecondModelAgreement

ESTIMATORS: dict[str, type[AccuracyEstimator]] = {
    "average-thresholded-confidence": AverageThresholdedConfidence,
    "calibrated-confidence": CalibratedConfidence,
    "cluster-agreement": ClusterAgreement,
    "combined": Combined,
    "confidence-optimal-transport": ConfidenceOptimalTransport,
    "difference-of-confidences": DifferenceOfConfidences,
    "importance-weighted-accuracy": ImportanceWeightedAccuracy,
    "importance-weighted-calibration": ImportanceWeightedCalibration,
    "label-probability": LabelProbability,
    "mean-confidence": MeanConfidence,
    "second-model-agreement": SecondModelAgreement,
}


def estimator_class(name: str) -> type[AccuracyEstimator]:
    """The estimator of that name.

    Raises:
        UnknownNameError: there is none; with the closest that there is.
    """
    if name not in ESTIMATORS:
        raise UnknownNameError("estimator", name, ESTIMATORS)
    return ESTIMATORS[name]
