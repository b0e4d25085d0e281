"""Probabilities that can be trusted on the target, from a model that is already trained and stays as it is.

The calibrator `target-scaling` (`shiftcal.calibrators.target_scaling`) around a model of any make.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from shiftcal.core.errors import InvalidInputError
from shiftcal.data.arrays import plain_labels
from shiftcal.faces.calibration.fitted_calibration import Calibrated, FittedCalibration, fit_calibration
from shiftcal.faces.models.features import Features
from shiftcal.faces.models.foreign_models import classes_of, label_array
from shiftcal.faces.models.outputs import OutputKind, kind_of_outputs
from shiftcal.faces.models.reader import ModelReader, SeenRows
from shiftcal.target.performance import Estimate, Expected


class ShiftCalibrator(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Makes the probabilities of a trained model trustworthy on a target, without its labels and without retraining.

    Args:
        model: a fitted classifier with `predict_proba` or `decision_function` (scikit-learn, XGBoost, LightGBM,
            CatBoost, skorch), an `nn.Module`, an ONNX Runtime session, or a function that gives logits or
            probabilities. `clone` and cross-validation keep it if it is a `FrozenEstimator(model)`.
        features: where the structure of the data is looked for: "auto"; "input", the inputs themselves; "model", what
            the model sees before its last layer or step; "none"; or a function from inputs to features (an encoder).
            "auto" asks a pipeline what its last step sees, takes other inputs that are vectors of numbers as they
            are, and asks the model otherwise. What is missing is imputed for this alone.
        outputs: what a module or function gives: "logits", "probabilities", or "auto" to look at all rows of `fit`.

    Attributes:
        classes_: the labels, in the order of the columns of `predict_proba`.
        estimated_accuracy_: the accuracy of the model to be expected on the target.
        diagnosis_: that estimate with all that it rests on.
        verdict_: the same in words.

    Data are arrays, frames, series or lists of texts, sparse matrices, mappings of columns, torch or Hugging Face
    datasets, loaders, generators of batches or Arrow tables. The model is asked about each row once and gets it as it
    is, in batches. Of more than 20,000 rows `fit` looks at a sample of that size. Predictions stay what the model
    predicts: only how sure they are changes.

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

    def fit(self, X_source: Any, y_source: Any = None, X_target: Any = None) -> ShiftCalibrator:
        """Learn how far to trust the model on the target.

        Args:
            X_source: source inputs, as the model takes them; best such that it was not trained on. On rows that it
                was trained on it is more often right than on new ones, which held-out rows would show.
            y_source: their labels; None if a data set or loader brings them.
            X_target: target inputs; labels that come with them are not looked at.

        Raises:
            InvalidInputError: the model, the inputs or the labels are not what they should be.
        """
        self._check_options()
        if X_target is None:
            raise InvalidInputError(
                "X_target: expected inputs of the target, without labels, got none; in cross-validation give them by "
                "params={'X_target': ...}, in a pipeline by <step>__X_target=..."
            )
        reader = ModelReader(self.model, self.features)
        source = reader.read(X_source, "X_source", with_labels=y_source is None)
        target = reader.read(X_target, "X_target")
        labels = _labels_of(source, y_source)
        given = self.outputs if reader.model.kind == "auto" else reader.model.kind
        kind = kind_of_outputs(np.concatenate([source.outputs, target.outputs]), given)
        self.classes_ = classes_of(self.model, max(source.outputs.shape[1], 2), labels, source.class_names)
        codes = self._column_numbers(labels)
        self._take(fit_calibration(source, codes, target, tuple(self.classes_.tolist()), kind))
        return self

    def predict_proba(self, X: Any) -> Any:
        """Calibrated probabilities (N, C), columns in the order of `classes_`; a frame after `set_output`."""
        probabilities = np.concatenate(list(self.iter_predict_proba(X)))
        if getattr(self, "_output", "default") == "default":
            return probabilities
        import pandas

        return pandas.DataFrame(probabilities, columns=self.classes_, index=getattr(X, "index", None))

    def iter_predict_proba(self, X: Any) -> Iterator[NDArray[np.float64]]:
        """The same batch by batch, for data larger than memory: a loader, a generator of batches, a memory map."""
        for calibrated in self._calibrated(X):
            yield calibrated.probabilities

    def predict_log_proba(self, X: Any) -> Any:
        """Logarithm of `predict_proba`."""
        return np.log(self.predict_proba(X))

    def predict(self, X: Any) -> NDArray[Any]:
        """The model's own predictions (N,)."""
        columns = [probabilities.argmax(axis=1) for probabilities in self.iter_predict_proba(X)]
        return np.asarray(self.classes_[np.concatenate(columns)])

    def predict_set(self, X: Any, coverage: float = 0.9) -> NDArray[np.bool_]:
        """Sets of labels that hold the true one with a probability of `coverage` on the target.

        As of `AdaptiveClassifier.predict_set`; the source rows given to `fit` are the held-out ones. This is as good
        as the calibration is: `set_coverage` says what to expect.

        Returns:
            (N, C), true where the label of that column of `classes_` is in the set of that row.
        """
        return np.concatenate([self._fitted.sets(calibrated, coverage) for calibrated in self._calibrated(X)])

    def set_coverage(self, coverage: float = 0.9) -> Expected:
        """How often sets that are asked for a coverage are expected to hold the true label on the target.

        The ends of the interval are what it would be if the accuracy were at the ends of its own.
        """
        check_is_fitted(self)
        return self._fitted.set_coverage(coverage)

    def estimate(self, X: Any) -> Estimate:
        """What to expect of the model on other rows without labels, such as those of a new day.

        Accuracy, balanced accuracy, F1, Brier score, log loss and more, each with a 90 % interval, the confusion
        matrix, the share of rows that have shifted and a verdict in words. Nothing is learned or changed.
        """
        check_is_fitted(self)
        return self._fitted.estimate(ModelReader(self.model, self.features).read(X, "X"))

    def density_ratio(self, X: Any) -> NDArray[np.float64]:
        """Estimated P_source(x) / P_target(x) of each row (N,): above 1 like the source, below 1 like the target."""
        return np.concatenate([calibrated.density_ratio for calibrated in self._calibrated(X)])

    def set_output(self, *, transform: Literal["default", "pandas"] | None = None) -> ShiftCalibrator:
        """Let `predict_proba` give a pandas frame with the classes as columns ("pandas"), or an array ("default")."""
        if transform not in (None, "default", "pandas"):
            raise InvalidInputError(f"transform must be one of default, pandas. Got {transform!r} instead.")
        if transform is not None:
            self._output = transform
        return self

    def report(self, path: Path | str) -> None:
        """Write a page: the verdict, what to expect on the target, and pictures; it needs nothing but a browser."""
        check_is_fitted(self)
        from shiftcal.faces.calibration.report import write_calibration_report

        write_calibration_report(self._fitted, Path(path))

    def save(self, path: Path | str) -> None:
        """Write all that was learned to a file without any code in it; the model itself is not part of it."""
        check_is_fitted(self)
        from shiftcal.faces.calibration.saved_calibration import save_calibration

        save_calibration(self._fitted, Path(path))

    @classmethod
    def load(cls, path: Path | str, model: Any, *, features: Features = "auto") -> ShiftCalibrator:
        """What `save` wrote, around the same model, given again."""
        from shiftcal.faces.calibration.saved_calibration import load_calibration

        fitted = load_calibration(Path(path))
        calibrated = cls(model, features=features, outputs=fitted.kind)
        calibrated._check_options()
        calibrated.classes_ = label_array(fitted.classes)
        calibrated._take(fitted)
        return calibrated

    def _take(self, fitted: FittedCalibration) -> None:
        self._fitted = fitted
        self.diagnosis_ = fitted.diagnosis
        self.estimated_accuracy_ = fitted.diagnosis.accuracy
        self.verdict_ = fitted.verdict()

    def _calibrated(self, X: Any) -> Iterator[Calibrated]:
        check_is_fitted(self)
        for answer in ModelReader(self.model, self.features).answers(X, "X"):
            yield self._fitted.calibrated(answer.outputs, answer.features, answer.rows)

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


def _labels_of(source: SeenRows, y_source: Any) -> list[Any]:
    """Labels of those rows that were kept."""
    if y_source is None and source.labels is not None:
        return source.labels
    labels = plain_labels(y_source, "y_source")
    if len(labels) != source.num_rows:
        raise InvalidInputError(
            f"y_source: expected one label for each of {source.num_rows} rows, got {len(labels)} labels"
        )
    return [labels[row] for row in source.rows]
