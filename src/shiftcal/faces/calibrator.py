"""Probabilities that can be trusted on the target, from a model that is already trained and stays as it is.

The calibrator `target-scaling` (`shiftcal.calibrators.target_scaling`) around a model of any make.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from shiftcal.calibrators.base import CalibrationData, State
from shiftcal.calibrators.estimates import estimate_performance
from shiftcal.calibrators.target_scaling import TargetScaling
from shiftcal.core.errors import InvalidInputError
from shiftcal.data.sparse_encoder import SparseEncoder
from shiftcal.faces.foreign_models import (
    LEAST_PROBABILITY,
    Features,
    OutputKind,
    classes_of,
    features_of,
    logits_of,
)
from shiftcal.methods.base import Outputs
from shiftcal.runs.predictions import Predictions
from shiftcal.target.diagnosis import Diagnosis
from shiftcal.target.performance import Estimate
from shiftcal.target.prediction_sets import conformity


class ShiftCalibrator(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Makes the probabilities of a trained model trustworthy on a target, without its labels and without retraining.

    Args:
        model: a fitted scikit-learn classifier, an `nn.Module`, or a function that gives logits or probabilities.
        features: where the structure of the data is looked for: "auto"; "input", the inputs themselves; "model", what
            the model sees before its last layer or step; "none"; or a function from inputs to features (an encoder).
            "auto" takes inputs that are vectors of numbers as they are, and asks the model otherwise.
        outputs: what a module or function gives: "logits", "probabilities", or "auto" to look.

    Attributes:
        classes_: the labels, in the order of the columns of `predict_proba`.
        estimated_accuracy_: the accuracy of the model to be expected on the target.
        diagnosis_: that estimate with all that it rests on.
        verdict_: the same in words.

    Predictions stay what the model predicts: only how sure they are changes.

    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import LogisticRegression
    >>> X, y = load_iris(return_X_y=True)
    >>> model = LogisticRegression(max_iter=1000).fit(X[::2], y[::2])
    >>> calibrated = ShiftCalibrator(model).fit(X[1::2], y[1::2], X[1::2] + 0.5)
    >>> calibrated.predict_proba(X + 0.5).shape
    (150, 3)
    """

    def __init__(self, model: Any, *, features: Features = "auto", outputs: OutputKind = "auto") -> None:
        self.model = model
        self.features = features
        self.outputs = outputs

    def fit(self, X_source: Any, y_source: Any, X_target: Any) -> ShiftCalibrator:
        """Learn how far to trust the model on the target.

        Args:
            X_source: source inputs, as the model takes them; best such that it was not trained on. On rows that it
                was trained on it is more often right than on new ones, which held-out rows would show.
            y_source: their labels.
            X_target: target inputs.

        Raises:
            InvalidInputError: the model, the inputs or the labels are not what they should be.
        """
        self._check_options()
        source_logits = logits_of(self.model, X_source, self.outputs)
        target_logits = logits_of(self.model, X_target, self.outputs)
        labels = list(np.asarray(y_source).tolist()) if hasattr(y_source, "dtype") else list(y_source)
        if len(labels) != len(source_logits):
            raise InvalidInputError(
                f"y_source: expected one label for each of {len(source_logits)} rows, got {len(labels)} labels"
            )
        self.classes_ = classes_of(self.model, source_logits.shape[1], labels)
        codes = self._column_numbers(labels)
        source_features = features_of(self.model, X_source, self.features)
        target_features = features_of(self.model, X_target, self.features)
        self._reduction = _sparse_reduction(source_features, target_features)
        source = _outputs(source_logits, self._dense(source_features))
        target = _outputs(target_logits, self._dense(target_features))
        self._source, self._source_labels = source, codes
        self._scaling, self._state, self.diagnosis_ = fit_target_scaling(source, codes, target)
        probabilities, ratio = _calibrated(self._scaling, self._state, source)
        target_probabilities, _ = _calibrated(self._scaling, self._state, target)
        self._conformity = conformity(probabilities, codes, 1 / ratio, target_probabilities)
        self.estimated_accuracy_ = self.diagnosis_.accuracy
        self.verdict_ = self.diagnosis_.verdict()
        return self

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Calibrated probabilities (N, C), columns in the order of `classes_`."""
        return np.asarray(self._calibrated(X)[0].numpy())

    def predict(self, X: Any) -> NDArray[Any]:
        """The model's own predictions (N,)."""
        return np.asarray(self.classes_[self.predict_proba(X).argmax(axis=1)])

    def predict_set(self, X: Any, coverage: float = 0.9) -> NDArray[np.bool_]:
        """Sets of labels that hold the true one with a probability of `coverage` on the target.

        As of `AdaptiveClassifier.predict_set`; the source rows given to `fit` are the held-out ones.

        Returns:
            (N, C), true where the label of that column of `classes_` is in the set of that row.
        """
        probabilities, ratio = self._calibrated(X)
        return np.asarray(self._conformity.sets(probabilities, 1 / ratio, coverage).numpy())

    def estimate(self, X: Any) -> Estimate:
        """What to expect of the model on other rows without labels, such as those of a new day.

        Accuracy, balanced accuracy, F1, Brier score, log loss and more, each with a 90 % interval, the confusion
        matrix, the share of rows that have shifted and a verdict in words. Nothing is learned or changed.
        """
        target = self._outputs(X)
        data = CalibrationData(self._source, self._source_labels, target, num_classes=len(self.classes_))
        return estimate_performance(data, target, self._scaling, tuple(self.classes_.tolist()))

    def density_ratio(self, X: Any) -> NDArray[np.float64]:
        """Estimated P_source(x) / P_target(x) of each row (N,): above 1 like the source, below 1 like the target."""
        return np.asarray(self._calibrated(X)[1].numpy())

    def _calibrated(self, X: Any) -> tuple[Tensor, Tensor]:
        return _calibrated(self._scaling, self._state, self._outputs(X))

    def _outputs(self, X: Any) -> Outputs:
        check_is_fitted(self)
        features = self._dense(features_of(self.model, X, self.features))
        return _outputs(logits_of(self.model, X, self.outputs), features)

    def _check_options(self) -> None:
        for name, known in (
            ("features", ("auto", "input", "model", "none")),
            ("outputs", ("auto", "logits", "probabilities")),
        ):
            value = getattr(self, name)
            if value not in known and not (name == "features" and callable(value)):
                expected = ", ".join(known) + (" or a function" if name == "features" else "")
                raise InvalidInputError(f"{name} must be one of {expected}. Got {value!r} instead.")

    def _column_numbers(self, labels: list[Any]) -> Tensor:
        position = {label: number for number, label in enumerate(self.classes_.tolist())}
        unknown = next((label for label in labels if label not in position), None)
        if unknown is not None:
            raise InvalidInputError(
                f"y_source: the model does not know the label {unknown!r}; expected labels among {self.classes_[:10]}"
            )
        return torch.tensor([position[label] for label in labels])

    def _dense(self, features: np.ndarray | sparse.spmatrix | None) -> Tensor | None:
        if features is None:
            return None
        dense = features if self._reduction is None else self._reduction.encode(features, "features")
        return torch.from_numpy(np.ascontiguousarray(dense, dtype=np.float64))


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
    outputs = _checked_outputs(source, target, source_features, target_features)
    assert source.labels is not None
    scaling, state, found = fit_target_scaling(outputs[0], torch.from_numpy(source.labels), outputs[1])
    probabilities, ratio = _calibrated(scaling, state, outputs[1])
    return replace(target, probabilities=probabilities.numpy(), density_ratio=ratio.numpy()), found


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
    outputs = _checked_outputs(source, target, source_features, target_features)
    assert source.labels is not None
    scaling = TargetScaling(use_features=source_features is not None)
    labels = torch.from_numpy(source.labels)
    data = CalibrationData(outputs[0], labels, outputs[1], num_classes=len(source.classes))
    return estimate_performance(data, outputs[1], scaling, source.classes)


def _checked_outputs(
    source: Predictions,
    target: Predictions,
    source_features: NDArray[np.float64] | None,
    target_features: NDArray[np.float64] | None,
) -> list[Outputs]:
    if source.labels is None:
        raise InvalidInputError("source predictions: expected labels (a column 'label'), and there are none")
    if source.classes != target.classes:
        raise InvalidInputError(
            f"target predictions: expected the classes of the source {source.classes[:10]}, got {target.classes[:10]}"
        )
    features = [
        _checked_features(given, len(predictions), name)
        for given, predictions, name in (
            (source_features, source, "source features"),
            (target_features, target, "target features"),
        )
    ]
    if (features[0] is None) != (features[1] is None):
        raise InvalidInputError("features: expected those of both domains or of none")
    return [
        _outputs(torch.from_numpy(domain.probabilities).clamp_min(LEAST_PROBABILITY).log(), own)
        for domain, own in zip((source, target), features, strict=True)
    ]


def fit_target_scaling(source: Outputs, labels: Tensor, target: Outputs) -> tuple[TargetScaling, State, Diagnosis]:
    """Target scaling of what a model says of labelled source rows, best such that it was not trained on, and target.

    Outputs without features (F = 0) are scaled by what they say alone.
    """
    scaling = TargetScaling(use_features=source.features.shape[1] > 0)
    data = CalibrationData(source, labels, target, num_classes=source.logits.shape[1])
    state, found = scaling.fit(data), scaling.diagnose(data)
    assert found is not None
    return scaling, state, found


def _outputs(logits: Tensor, features: Tensor | None) -> Outputs:
    none = torch.empty(len(logits), 0, dtype=torch.float64)
    return Outputs(logits, torch.ones(len(logits), dtype=torch.float64), none if features is None else features)


def _calibrated(scaling: TargetScaling, state: State, outputs: Outputs) -> tuple[Tensor, Tensor]:
    """Probabilities (K, C) and density ratio (K,) for rows of either domain."""
    return torch.softmax(scaling.calibrate(outputs, state), dim=-1), scaling.density_ratio(outputs, state)


def _checked_features(features: NDArray[np.float64] | None, num_rows: int, name: str) -> Tensor | None:
    if features is None:
        return None
    if features.ndim != 2 or len(features) != num_rows or not np.isfinite(features).all():
        raise InvalidInputError(
            f"{name}: expected finite numbers of shape ({num_rows}, features), one row per prediction, "
            f"got {features.dtype} of {features.shape}"
        )
    return torch.from_numpy(np.ascontiguousarray(features, dtype=np.float64))


def _sparse_reduction(
    source: np.ndarray | sparse.spmatrix | None, target: np.ndarray | sparse.spmatrix | None
) -> SparseEncoder | None:
    """Sparse features, as of words, have thousands of columns: their leading components of both domains."""
    if not sparse.issparse(source):
        return None
    return SparseEncoder.fit(sparse.vstack([source, target]))
