"""The same calibration from what a model said of both domains, without the model."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray

from shiftcal.core.errors import InvalidInputError
from shiftcal.faces.fitted_calibration import FittedCalibration, fit_calibration
from shiftcal.faces.model_reader import SeenRows
from shiftcal.runs.predictions import Predictions
from shiftcal.target.diagnosis import Diagnosis
from shiftcal.target.performance import Estimate
from shiftcal.target.sampling import sampled_rows


def calibrate_predictions(
    source: Predictions,
    target: Predictions,
    source_features: NDArray[np.float64] | None = None,
    target_features: NDArray[np.float64] | None = None,
) -> tuple[Predictions, Diagnosis]:
    """Calibrated predictions for the target, and what to expect there, from what a model said of both domains.

    Args:
        source: predictions for source rows with labels, best such that the model was not trained on.
        target: predictions for target rows; labels, if there are any, are not looked at.
        source_features: (N, F), rows as in `source`; without features the calibration has little to go by.
        target_features: (M, F).

    Raises:
        InvalidInputError: no source labels, other classes, or features of other shapes.
    """
    fitted = fit_predictions(source, target, source_features, target_features)
    found = fitted.calibrated(target.probabilities, target_features, np.arange(len(target)))
    calibrated = replace(target, probabilities=found.probabilities, density_ratio=found.density_ratio)
    return calibrated, fitted.diagnosis


def estimate_predictions(
    source: Predictions,
    target: Predictions,
    source_features: NDArray[np.float64] | None = None,
    target_features: NDArray[np.float64] | None = None,
) -> Estimate:
    """What to expect of a model on the target, from what it said of both domains; arguments of the same meaning.

    Raises:
        InvalidInputError: as `calibrate_predictions`.
    """
    fitted = fit_predictions(source, target, source_features, target_features)
    return fitted.estimate(_seen(target, target_features, "target features"))


def fit_predictions(
    source: Predictions,
    target: Predictions,
    source_features: NDArray[np.float64] | None = None,
    target_features: NDArray[np.float64] | None = None,
) -> FittedCalibration:
    """What both are made with; of more than 20,000 rows of a domain a sample is looked at."""
    if source.labels is None:
        raise InvalidInputError("source predictions: expected labels (a column 'label'), and there are none")
    if source.classes != target.classes:
        raise InvalidInputError(
            f"target predictions: expected the classes of the source {source.classes[:10]}, got {target.classes[:10]}"
        )
    seen = _seen(source, source_features, "source features")
    labels = torch.from_numpy(source.labels[seen.rows])
    return fit_calibration(
        seen, labels, _seen(target, target_features, "target features"), source.classes, "probabilities"
    )


def _seen(predictions: Predictions, features: NDArray[np.float64] | None, name: str) -> SeenRows:
    rows = sampled_rows(len(predictions))
    if features is not None and (
        features.ndim != 2 or len(features) != len(predictions) or not np.isfinite(features).all()
    ):
        raise InvalidInputError(
            f"{name}: expected finite numbers of shape ({len(predictions)}, features), one row per prediction, "
            f"got {features.dtype} of {features.shape}"
        )
    return SeenRows(
        outputs=predictions.probabilities[rows],
        features=None if features is None else np.asarray(features[rows], dtype=np.float64),
        inputs=None,
        rows=rows,
        labels=None,
        num_rows=len(predictions),
        looked_at=None if features is None else "given features",
        column_names=None,
        class_names=None,
    )
