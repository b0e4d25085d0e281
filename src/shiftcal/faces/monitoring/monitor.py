"""A deployed model watched over time: batches without labels, held against labelled reference rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse

from shiftcal.calibrators.base import CalibrationData
from shiftcal.calibrators.estimates import estimate_performance
from shiftcal.calibrators.target_scaling import TargetScaling
from shiftcal.core.errors import InvalidInputError
from shiftcal.data.arrays import plain_labels
from shiftcal.data.frames import is_frame
from shiftcal.faces.calibration.calibrator import ShiftCalibrator
from shiftcal.faces.models.features import Features
from shiftcal.faces.models.foreign_models import classes_of
from shiftcal.faces.models.outputs import OutputKind, as_logits, kind_of_outputs
from shiftcal.faces.models.reader import ModelReader
from shiftcal.faces.monitoring.watched_columns import WatchedColumns, with_outputs
from shiftcal.methods.base import Outputs
from shiftcal.target.alarms import SIGNALS, AccuracySigns, AlarmRule
from shiftcal.target.batch_status import BatchStatus, Signal
from shiftcal.target.column_encoding import ColumnEncoder
from shiftcal.target.confidence_drop import ConfidenceReference
from shiftcal.target.diagnosis import Diagnosis
from shiftcal.target.drift import Column, ReferenceColumns
from shiftcal.target.feature_map import FeatureTable
from shiftcal.target.performance import Estimate
from shiftcal.target.right_probability import RightProbability
from shiftcal.target.sampling import sampled_rows

# Rows that the accuracy of a batch is estimated from, and reference rows that it is held against: more would only
# take longer. Drift and confidence are of all rows.
_MOST_ROWS = 100_000
_MOST_REFERENCE_ROWS = 20_000
# Nothing can be said of a handful of rows.
FEWEST_ROWS = 10
"""Of a batch, and of the reference."""


class Monitor:
    """Holds batches without labels against a labelled reference.

    Args:
        model: as of `ShiftCalibrator`, or such a calibrator, whose model and options are taken.
        X_reference: rows that the model was not trained on, as it takes them; of the time when all was well.
        y_reference: their labels.
        columns: of a frame, those whose drift is watched; default: all but dates and identities.
        features: where the structure of the data is looked for, as of `ShiftCalibrator`; "auto" takes the watched
            columns of a table, categories by indicators.
        outputs: as of `ShiftCalibrator`.
        watch: what raises an alarm: "accuracy", "drift" or both.
        false_alarms_per_year: how many alarms to expect in a year of batches like the reference.
        batches_per_year: how many batches that is.
        window: number of batches that a small drop of confidence is looked for in together.
        history: statuses from before, such as those of a file.

    Attributes:
        classes_: the labels, in the order of class frequencies.
        reference_accuracy_: of the model on the reference.
        history: one `BatchStatus` for each batch.

    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import LogisticRegression
    >>> X, y = load_iris(return_X_y=True)
    >>> monitor = Monitor(LogisticRegression(max_iter=1000).fit(X[::2], y[::2]), X[1::2], y[1::2])
    >>> monitor.update(X[1::2] + 3, time="Monday").alarm
    True
    """

    def __init__(
        self,
        model: Any,
        X_reference: Any,
        y_reference: Any,
        *,
        columns: Sequence[str] | None = None,
        features: Features = "auto",
        outputs: OutputKind = "auto",
        watch: Sequence[Signal] = SIGNALS,
        false_alarms_per_year: float = 1.0,
        batches_per_year: float = 365.0,
        window: int = 30,
        history: Iterable[BatchStatus] = (),
    ) -> None:
        self._rule = AlarmRule(
            false_alarms_per_year=false_alarms_per_year, batches_per_year=batches_per_year, watch=tuple(watch)
        )
        if window < 1:
            raise InvalidInputError(f"window: expected a number of batches of at least 1, got {window!r}")
        self._window = window
        if isinstance(model, ShiftCalibrator):
            model, features, outputs = model.model, model.features, model.outputs
        self._model, self._features, self._outputs = model, features, outputs
        self.history = list(history)
        self._learn(X_reference, y_reference, columns)

    def update(self, X: Any, *, time: object = None, y: Any = None) -> BatchStatus:
        """What is to be said of a batch; it joins the history.

        Args:
            X: rows without labels, as the model takes them.
            time: name of the batch, such as its date; default: its number.
            y: labels, where they have come; the true accuracy is shown beside the estimate, and nothing else changes.

        Raises:
            InvalidInputError: the rows are not as those of the reference.
        """
        outputs, features = self._ask(X, "batch")
        logits = as_logits(outputs, self._kind, np.arange(len(outputs)))
        if len(logits) < FEWEST_ROWS:
            raise InvalidInputError(
                f"batch: expected at least {FEWEST_ROWS} rows, got {len(logits)}; join it with the next"
            )
        probabilities = torch.softmax(logits, dim=-1).numpy()
        columns = self._columns_of(X, features)
        structure = self._structure_of(features, columns)
        calibrated = self._confidence.calibrated(probabilities.max(axis=1))
        found = self._right.brought_to(self._estimate(logits, structure).diagnosis, calibrated, structure)
        interval, prior = found.interval, found.prior_shift
        assert interval is not None
        assert prior is not None
        signs = self._accuracy_signs(found, calibrated)
        drift = self._reference_columns.drift(with_outputs(columns, probabilities, self.classes_))
        status = BatchStatus(
            time=str(len(self.history) + 1 if time is None else time),
            num_rows=len(logits),
            accuracy=found.accuracy,
            low=interval[0],
            high=interval[1],
            confidence=signs.confidence,
            confidence_p_value=signs.confidence_p_value,
            window_p_value=signs.window_p_value,
            shifted_share=found.shifted_share,
            kind_of_shift=found.kind_of_shift(),
            class_frequencies=prior.frequencies,
            prior_distance=prior.distance,
            drift=drift,
            alarms=(*self._rule.accuracy_alarms(signs), *self._rule.drift_alarms(drift)),
            true_accuracy=None if y is None else self._accuracy(probabilities, y, "y"),
        )
        self.history.append(status)
        return status

    def _learn(self, X: Any, y: Any, columns: Sequence[str] | None) -> None:
        outputs, features = self._ask(X, "reference")
        self._kind = kind_of_outputs(outputs, self._outputs)
        logits = as_logits(outputs, self._kind, np.arange(len(outputs)))
        labels = plain_labels(y, "y_reference")
        if len(logits) < FEWEST_ROWS:
            raise InvalidInputError(f"reference: expected at least {FEWEST_ROWS} rows, got {len(logits)}")
        self.classes_ = classes_of(self._model, logits.shape[1], labels)
        probabilities = torch.softmax(logits, dim=-1).numpy()
        is_table = is_frame(X) or (np.ndim(X) == 2 and not sparse.issparse(X))
        self._watched = WatchedColumns(X, columns) if is_table else None
        own = self._columns_of(X, features)
        self._encoder = ColumnEncoder(own)
        self._reference_columns = ReferenceColumns(with_outputs(own, probabilities, self.classes_))
        codes = self._codes(labels, len(logits), "y_reference")
        right = probabilities.argmax(axis=1) == codes
        self.reference_accuracy_ = float(right.mean())
        self._confidence = ConfidenceReference(probabilities.max(axis=1), right)
        rows = sampled_rows(len(logits), _MOST_REFERENCE_ROWS)
        structure = self._structure_of(features, own)
        self._right = RightProbability(
            self._confidence.calibrated(probabilities[rows].max(axis=1)),
            right[rows],
            None if structure is None else structure[rows],
        )
        self._source = _outputs(logits, structure, rows)
        self._source_labels = torch.from_numpy(codes[rows])

    def _ask(self, X: Any, name: str) -> tuple[NDArray[np.float64], FeatureTable | None]:
        """What the model says of all rows, (N, C), and what is seen in them."""
        reader = ModelReader(self._model, self._features)
        answers = list(reader.answers(X, name))
        if self._outputs == "auto":
            self._outputs = reader.model.kind
        outputs = np.concatenate([answer.outputs for answer in answers])
        features = [answer.features for answer in answers if answer.features is not None]
        if not features:
            return outputs, None
        joined = sparse.vstack(features) if sparse.issparse(features[0]) else np.concatenate(features)
        return outputs, joined

    def _columns_of(self, X: Any, features: FeatureTable | None) -> dict[str, Column]:
        """Columns of a table; of other inputs what the model sees in them, as far as it can be had."""
        if self._watched is not None:
            return self._watched.of(X)
        if features is None:
            return {}
        return {f"feature {number}": column for number, column in enumerate(_checked_dense(features).T)}

    def _structure_of(self, features: FeatureTable | None, columns: dict[str, Column]) -> NDArray[np.float64] | None:
        if self._features == "none" or not columns:
            return None
        if self._features == "auto" or self._watched is None:
            return self._encoder.encoded(columns)
        return None if features is None else _checked_dense(features)

    def _estimate(self, logits: torch.Tensor, structure: NDArray[np.float64] | None) -> Estimate:
        target = _outputs(logits, structure, sampled_rows(len(logits), _MOST_ROWS))
        data = CalibrationData(self._source, self._source_labels, target, num_classes=len(self.classes_))
        scaling = TargetScaling(use_features=structure is not None)
        return estimate_performance(data, target, scaling, tuple(self.classes_.tolist()))

    def _accuracy_signs(self, found: Diagnosis, calibrated: NDArray[np.float64]) -> AccuracySigns:
        assert found.interval is not None
        assert found.reach is not None
        mean = float(calibrated.mean())
        batches = [(mean, len(calibrated)), *self._window_batches()]
        num_rows = sum(rows for _, rows in batches)
        return AccuracySigns(
            found.accuracy,
            *found.interval,
            reach=max(found.reach),
            reference_accuracy=self.reference_accuracy_,
            confidence=mean,
            confidence_p_value=self._confidence.drop_p_value(mean, len(calibrated)),
            window_p_value=self._confidence.drop_p_value(sum(m * rows for m, rows in batches) / num_rows, num_rows),
            window_batches=len(batches),
        )

    def _window_batches(self) -> list[tuple[float, int]]:
        """Confidence and rows of the last batches but those that stand out by themselves."""
        if self._window == 1:
            return []
        return [
            (status.confidence, status.num_rows)
            for status in self.history[1 - self._window :]
            if not self._rule.stands_out(status.high, self.reference_accuracy_, status.confidence_p_value)
        ]

    def _accuracy(self, probabilities: NDArray[np.float64], y: Any, name: str) -> float:
        return float(
            (probabilities.argmax(axis=1) == self._codes(plain_labels(y, name), len(probabilities), name)).mean()
        )

    def _codes(self, labels: list[Any], num_rows: int, name: str) -> NDArray[np.int64]:
        if len(labels) != num_rows:
            raise InvalidInputError(f"{name}: expected a label for each of {num_rows} rows, got {len(labels)} labels")
        position = {label: number for number, label in enumerate(self.classes_.tolist())}
        unknown = next((label for label in labels if label not in position), None)
        if unknown is not None:
            raise InvalidInputError(
                f"{name}: the model does not know the label {unknown!r}; expected labels among {self.classes_[:10]}"
            )
        return np.array([position[label] for label in labels], dtype=np.int64)


def _checked_dense(features: Any) -> NDArray[np.float64]:
    if sparse.issparse(features):
        raise InvalidInputError(
            "features: a monitor looks at columns one by one, got a sparse matrix; give a function from inputs to "
            "dense features (features=...), such as one with TruncatedSVD"
        )
    return np.asarray(features)


def _outputs(logits: torch.Tensor, structure: NDArray[np.float64] | None, rows: NDArray[np.int64]) -> Outputs:
    features = np.empty((len(logits), 0)) if structure is None else structure
    return Outputs(
        logits[rows],
        torch.ones(len(rows), dtype=torch.float64),
        torch.from_numpy(np.ascontiguousarray(features[rows])),
    )
