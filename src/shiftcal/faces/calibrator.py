"""Probabilities that can be trusted on the target, from a model that is already trained and stays as it is.

    probabilities = softmax(scale(x) z(x) / T),  log scale(x) = tau(x) (vote u(x) - caution)

by the rule of `shiftcal.target.caution`, with tau from a density ratio fitted to features of both domains.
The rule can only take confidence away. A model that the source shows to be too unsure, as a strongly regularised one
is, first gets the temperature T < 1 that the source asks for; T is 1 for all others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.decomposition import TruncatedSVD
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from shiftcal.calibrators.temperature import fit_temperature
from shiftcal.core.errors import InvalidInputError
from shiftcal.faces.foreign_models import LEAST_PROBABILITY, Features, OutputKind, classes_of, features_of, logits_of
from shiftcal.runs.evaluation import verdict_on_estimate
from shiftcal.runs.predictions import Predictions
from shiftcal.target.caution import Caution, Observed, calibration_gap, fit_caution, log_scale
from shiftcal.target.clusters import common_units, ordinary_for_constant
from shiftcal.target.density_ratios import density_ratio
from shiftcal.target.density_ratios.base import BoundedLogRatio
from shiftcal.target.domain_auc import evenly_spread
from shiftcal.target.prediction_sets import conformity

_RATIO_BOUND = 10.0
_MOST_ROWS_FOR_RATIO = 3_000
_NUM_SPARSE_COMPONENTS = 256


class ShiftScaling:
    """The scale of logits on a target, from logits and features of both domains alone.

    >>> generator = torch.Generator().manual_seed(0)
    >>> logits, features = torch.randn(60, 3, generator=generator), torch.randn(60, 5, generator=generator)
    >>> scaling = ShiftScaling().fit(logits, features, logits.argmax(dim=1), logits / 2, features + 1)
    >>> probabilities, ratio = scaling.calibrate(logits / 2, features + 1)
    >>> probabilities.shape, ratio.shape
    (torch.Size([60, 3]), torch.Size([60]))
    """

    temperature: float
    caution: Caution
    log_ratio: BoundedLogRatio
    units: Tensor | None
    findings: dict[str, float]

    def fit(
        self,
        source_logits: Tensor,
        source_features: Tensor | None,
        source_labels: Tensor,
        target_logits: Tensor,
        target_features: Tensor | None,
    ) -> ShiftScaling:
        """Find the scale.

        Args:
            source_logits: (N, C), of rows that the model was not trained on if there are such.
            source_features: (N, F); None if nothing but the logits is known.
            source_labels: (N,) column numbers.
            target_logits: (M, C).
            target_features: (M, F), or None.
        """
        self.temperature = 1.0
        if calibration_gap(source_logits.double(), source_labels) > 0:
            self.temperature = min(fit_temperature(source_logits, source_labels), 1.0)
        self.units = None
        if source_features is not None:
            self.units = common_units(_deviation(source_features.double()))
        rows = [
            self._rows(logits, features)[evenly_spread(len(logits), _MOST_ROWS_FOR_RATIO)].numpy()
            for logits, features in ((source_logits, source_features), (target_logits, target_features))
        ]
        self.log_ratio = density_ratio("logistic", {"bound": _RATIO_BOUND}).fit(*rows).log_ratio
        source = self._observed(source_logits, source_features)
        target = self._observed(target_logits, target_features)
        self.caution, estimate = fit_caution(source, source_labels, source, source_labels, target)
        own = {"caution": float(self.caution.caution), "temperature": self.temperature}
        self.findings = estimate.findings() | own
        return self

    def calibrate(self, logits: Tensor, features: Tensor | None) -> tuple[Tensor, Tensor]:
        """Probabilities (K, C) and density ratio (K,) for rows of either domain."""
        rows = self._observed(logits, features)
        scale = log_scale(self.caution, rows).exp()
        return torch.softmax(scale.unsqueeze(-1) * rows.logits, dim=-1), 1 / rows.likeness - 1

    def _rows(self, logits: Tensor, features: Tensor | None) -> Tensor:
        """What the density ratio is a function of: the features or, without any, what the model says."""
        return torch.log_softmax(logits.double(), dim=-1) if features is None else features.double()

    def _observed(self, logits: Tensor, features: Tensor | None) -> Observed:
        likeness = torch.sigmoid(-torch.from_numpy(self.log_ratio(self._rows(logits, features).numpy())))
        representation = None if features is None or self.units is None else features.double() / self.units
        return Observed(logits.double() / self.temperature, likeness, representation)


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
        findings_: what that estimate rests on, by name (`shiftcal.target.caution`).
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
        source, target = (source_logits, self._dense(source_features)), (target_logits, self._dense(target_features))
        self._scaling = ShiftScaling().fit(*source, codes, *target)
        (probabilities, ratio), (target_probabilities, _) = (
            self._scaling.calibrate(*domain) for domain in (source, target)
        )
        self._conformity = conformity(probabilities, codes, 1 / ratio, target_probabilities)
        self.findings_: Mapping[str, float] = self._scaling.findings
        self.estimated_accuracy_ = self.findings_["estimated_accuracy"]
        self.verdict_ = verdict_on_estimate(self.findings_)
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

    def density_ratio(self, X: Any) -> NDArray[np.float64]:
        """Estimated P_source(x) / P_target(x) of each row (N,): above 1 like the source, below 1 like the target."""
        return np.asarray(self._calibrated(X)[1].numpy())

    def _calibrated(self, X: Any) -> tuple[Tensor, Tensor]:
        check_is_fitted(self)
        features = features_of(self.model, X, self.features)
        return self._scaling.calibrate(logits_of(self.model, X, self.outputs), self._dense(features))

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
        dense = features if self._reduction is None else self._reduction.transform(features)
        return torch.from_numpy(np.ascontiguousarray(dense, dtype=np.float64))


def calibrate_predictions(
    source: Predictions,
    target: Predictions,
    source_features: NDArray[np.float64] | None = None,
    target_features: NDArray[np.float64] | None = None,
) -> tuple[Predictions, dict[str, float]]:
    """Calibrated predictions for the target, and findings, from what a model said of both domains.

    Args:
        source: predictions for source rows with labels, best such that the model was not trained on.
        target: predictions for target rows; labels, if there are any, are not looked at.
        source_features: (N, F), rows as in `source`; without features the calibration has little to go by.
        target_features: (M, F).

    Raises:
        InvalidInputError: no source labels, other classes, or features of other shapes.
    """
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
    logits = [
        torch.from_numpy(domain.probabilities).clamp_min(LEAST_PROBABILITY).log() for domain in (source, target)
    ]
    scaling = ShiftScaling().fit(logits[0], features[0], torch.from_numpy(source.labels), logits[1], features[1])
    probabilities, ratio = scaling.calibrate(logits[1], features[1])
    calibrated = replace(target, probabilities=probabilities.numpy(), density_ratio=ratio.numpy())
    return calibrated, scaling.findings


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
) -> TruncatedSVD | None:
    """Sparse features, as of words, have thousands of columns: their leading components of both domains."""
    if not sparse.issparse(source):
        return None
    both = sparse.vstack([source, target])
    return TruncatedSVD(min(_NUM_SPARSE_COMPONENTS, min(both.shape) - 1), random_state=0).fit(both)


def _deviation(features: Tensor) -> Tensor:
    """Deviation (F,) of each column; a constant one gets that of an ordinary one."""
    deviation = features.std(dim=0, correction=0)
    return ordinary_for_constant(deviation, least=1e-9 * float(deviation.max()))
