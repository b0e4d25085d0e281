"""The scikit-learn face: a classifier that is told about the target when it is fitted."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import Tags, check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor, nn
from torch.utils.data import Dataset

from shiftcal.core.errors import InvalidInputError, InvalidTypeError, OutputError
from shiftcal.core.folder_lock import folder_lock
from shiftcal.data.arrays import check_kind, encode_labels, inputs_from, labels_of_dataset
from shiftcal.data.batches import ShiftProblem
from shiftcal.data.domains import LabelledDomain, UnlabelledDomain
from shiftcal.data.frames import as_label_list
from shiftcal.data.inputs import Inputs
from shiftcal.data.rows import encoded_inputs, encoder_for, is_numeric_frame, plain_rows
from shiftcal.data.sparse_encoder import SparseEncoder
from shiftcal.data.table_encoder import TableEncoder
from shiftcal.data.weights import row_weights
from shiftcal.runs.folder import RunFolder
from shiftcal.target.performance import Estimate
from shiftcal.training.fallback import fit_with_fallback
from shiftcal.training.fitted_model import FittedModel, Predicted
from shiftcal.training.recipe import Recipe
from shiftcal.training.saved_model import load_model


class AdaptiveClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier whose probabilities can be trusted on a target that differs from its training data.

    Args:
        method: how to train, of `shiftcal list methods`; or a method and a calibrator by one name, of `shiftcal list
            compositions`: "calibrated" is source-only with target-scaling, "adapted" is drst with it.
        calibrator: post-hoc calibration; `shiftcal list calibrators`.
        backbone: "auto", a name (`shiftcal list backbones`, or any of timm's), or an `nn.Module` that gives features.
        method_options: options of the method by name.
        calibrator_options: options of the calibrator by name.
        epochs: passes over the source, or rounds of `epoch_steps`; None chooses by the size of the data.
        batch_size: rows of each domain in a batch.
        device: "auto", "cpu", "cuda", "cuda:N" or "mps".
        random_state: seed of everything random.
        training_options: further options of the engine by name, such as precision or num_workers.
        fallback: for methods that adapt: train a classifier on the source alone beside it, and keep that one where
            the target's own structure speaks for it; `verdict_` says so. See `shiftcal.training.fallback`.
        freeze_backbone: keep the weights of the backbone, which must have some ("efficientnet-lite0:pretrained",
            "resnet50:pretrained", "onnx:FILE.onnx", a module), and train a head on its features. They are extracted
            once and kept in the folder of `SHIFTCAL_CACHE`; random views are then those of features.
        class_weight: None, "balanced" (all classes weigh alike) or weights by label: how often training draws rows
            of each class. Probabilities are then those of a source with such classes. `save` does not keep it.

    Attributes:
        classes_: the labels, in the order of the columns of `predict_proba`.
        columns_: of a table, what is done with which column.
        history_: one mapping per epoch.
        estimated_accuracy_: the accuracy to be expected on the target, found without its labels; NaN without one.
        verdict_: in words, what to expect on the target and how far to believe it; empty without a target.
        model_: the fitted model.

    Inputs are float features (N, D), which are taken as they are; tables: frames of pandas, polars, Arrow or DuckDB,
    arrays of mixed values or with NaN, with columns of numbers, categories, truth values and dates, found by name
    (`shiftcal.data.table_columns` says what becomes of them); sparse matrices; images as a NumPy uint8 array
    (N, H, W) or (N, H, W, C), or as a torch float tensor (N, C, H, W) in [0, 1]; a torch Dataset; or a domain of
    `shiftcal.data`.

    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = AdaptiveClassifier(epochs=30).fit(X, y, X_target=X + 0.3)
    >>> clf.predict_proba(X).shape, clf.density_ratio(X).shape
    ((150, 3), (150,))
    """

    def __init__(
        self,
        method: str = "calibrated",
        calibrator: str | None = None,
        backbone: str | nn.Module = "auto",
        method_options: Mapping[str, Any] | None = None,
        calibrator_options: Mapping[str, Any] | None = None,
        epochs: int | None = None,
        batch_size: int = 64,
        device: str = "auto",
        random_state: int | np.random.RandomState | None = 0,
        training_options: Mapping[str, Any] | None = None,
        fallback: bool = True,
        class_weight: Mapping[Any, float] | str | None = None,
        freeze_backbone: bool = False,
    ) -> None:
        self.method = method
        self.calibrator = calibrator
        self.backbone = backbone
        self.method_options = method_options
        self.calibrator_options = calibrator_options
        self.epochs = epochs
        self.batch_size = batch_size
        self.device = device
        self.random_state = random_state
        self.training_options = training_options
        self.fallback = fallback
        self.class_weight = class_weight
        self.freeze_backbone = freeze_backbone

    def fit(self, X: Any, y: Any = None, X_target: Any = None, sample_weight: Any = None) -> AdaptiveClassifier:
        """Train on labelled source data and unlabelled target data.

        Args:
            X: source inputs.
            y: source labels of any hashable type; None if X is a dataset or domain that has them.
            X_target: target inputs; None means that no shift is known, and the density ratio is 1.
            sample_weight: for each source row, how often training draws it, in proportion. The rows that are held
                out for calibration, and the estimates made from them, count alike.
        """
        recipe = self._recipe()
        rows, labels = self._source(X, y)
        codes, classes = encode_labels(labels, "y")
        num_rows = rows.shape[0] if hasattr(rows, "iloc") or sparse.issparse(rows) else len(rows)
        if len(codes) != num_rows:
            raise InvalidInputError(f"y: expected one label for each of {num_rows} rows, got {len(codes)} labels")
        weights = row_weights(codes, classes.tolist(), self.class_weight, sample_weight)
        target_rows = None if X_target is None else self._rows(X_target, "X_target")
        encoder = encoder_for(rows, target_rows)
        inputs = encoded_inputs(rows, encoder, "X")
        target = None
        if X_target is not None:
            target_inputs = encoded_inputs(target_rows, encoder, "X_target")
            if target_inputs.shape != inputs.shape:
                raise InvalidInputError(
                    f"X_target: expected rows of the source's shape {inputs.shape}, got {target_inputs.shape}"
                )
            target = UnlabelledDomain("target", target_inputs)
        source = LabelledDomain("source", inputs, codes, tuple(classes.tolist()), weights)
        self._take(fit_with_fallback(ShiftProblem(source, target), recipe, fallback=self.fallback), classes)
        return self

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Probabilities (N, C), columns in the order of `classes_`."""
        return self._joined(X, lambda batch: batch.probabilities)

    def predict(self, X: Any) -> NDArray[Any]:
        """The most probable label of each row (N,)."""
        columns = self.predict_proba(X).argmax(axis=1)
        return np.asarray(self.classes_[columns])

    def density_ratio(self, X: Any) -> NDArray[np.float64]:
        """Estimated P_source(x) / P_target(x) of each row (N,): above 1 like the source, below 1 like the target."""
        return self._joined(X, lambda batch: batch.density_ratio)

    def features(self, X: Any) -> NDArray[np.float64]:
        """What the network sees in each input before its last layer (N, F)."""
        check_is_fitted(self)
        return np.asarray(self.model_.predict(self._inputs(X, "X")).features.double().numpy())

    def predict_set(self, X: Any, coverage: float = 0.9) -> NDArray[np.bool_]:
        """Sets of labels that hold the true one with a probability of `coverage` on the target.

        Sets by weighted conformal prediction with the learned density ratio, where the held-out source rows suffice
        for it, and nowhere smaller than by the probabilities of the target's own rows
        (`shiftcal.target.prediction_sets`). On a target far from the source these decide, and the coverage is as good
        as their calibration.

        Args:
            X: inputs.
            coverage: wanted share of rows whose set holds the true label, in (0, 1].

        Returns:
            (N, C), true where the label of that column of `classes_` is in the set of that row.

        Raises:
            InvalidInputError: no source data was held out, or the coverage is out of range.
        """
        return self._joined(X, lambda batch: batch.sets, coverage)

    def iter_predict(self, X: Any, coverage: float | None = None) -> Iterator[Predicted]:
        """Probabilities, density ratio and, for a coverage, sets of each row: in one pass, batch by batch.

        For data larger than memory (a memory map, a data set), and for those who want more than one of them. The
        batches hold tensors: `probabilities` (N, C), `density_ratio` (N,) and `sets` (N, C) or None.
        """
        check_is_fitted(self)
        return self.model_.predict_batches(self._inputs(X, "X"), coverage)

    def estimate(self, X: Any) -> Estimate:
        """What to expect of this classifier on other rows without labels, such as those of a new day.

        Accuracy, balanced accuracy, F1, Brier score, log loss and more, each with a 90 % interval, the confusion
        matrix, the share of rows that have shifted and a verdict in words. Nothing is learned or changed.

        Raises:
            InvalidInputError: no source data was held out.
        """
        check_is_fitted(self)
        return self.model_.estimate(self._inputs(X, "X"))

    def save(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Write a run folder with configuration, versions, history and checkpoint; `shiftcal predict` takes it.

        Args:
            path: the folder, new or empty.
            overwrite: whether it may be the folder of another model, which is replaced; its results are removed.

        Raises:
            OutputError: the folder holds something else, or another process is at work in it.
        """
        check_is_fitted(self)
        folder = RunFolder(Path(path))
        folder.check_no_other_files()
        with folder_lock(folder.path), folder.nothing_left_on_failure():
            if folder.is_started:
                if not overwrite:
                    raise OutputError(
                        f"{str(folder.path)!r} already holds a model; choose another folder, or pass overwrite=True"
                    )
                folder.remove_results()
            folder.write_model(self.model_)

    @classmethod
    def load(cls, path: str | Path, *, backbone: nn.Module | None = None) -> AdaptiveClassifier:
        """Read the classifier of a run folder.

        Args:
            path: the folder.
            backbone: the module that the classifier was trained with, if it was one of the user's own.
        """
        model = load_model(RunFolder(Path(path)).checkpoint, backbone=backbone)
        plain = (model.asked_for or model.recipe).as_plain()
        training = plain.pop("training")
        named = {key: training.pop(key) for key in ("epochs", "batch_size", "device", "random_state")}
        # A model that was compared with its reference says how that ended.
        named["fallback"] = model.findings.adaptation is not None or not model.recipe.method.needs_target
        classifier = cls(**plain | named | {"backbone": model.recipe.backbone, "training_options": training})
        classifier._take(model, encode_labels(model.classes, "classes")[1])
        return classifier

    def _take(self, model: FittedModel, classes: NDArray[Any]) -> None:
        self.model_ = model
        if isinstance(model.encoder, TableEncoder):
            self.n_features_in_ = len(model.encoder.names)
            if model.encoder.has_names:
                self.feature_names_in_ = np.array(model.encoder.names, dtype=object)
        elif isinstance(model.encoder, SparseEncoder):
            self.n_features_in_ = model.encoder.num_columns
        elif len(model.input_shape) == 1:
            self.n_features_in_ = model.input_shape[0]
        self.columns_ = {} if model.encoder is None else model.encoder.description()
        self.classes_ = classes
        self.history_ = list(model.history)
        self.n_iter_ = len(self.history_)
        self.estimated_accuracy_ = float("nan") if model.diagnosis is None else model.diagnosis.accuracy
        self.verdict_ = " ".join(model.findings.verdicts())

    def _recipe(self) -> Recipe:
        seed = self.random_state
        if seed is None or isinstance(seed, np.random.RandomState):
            seed = int(check_random_state(seed).randint(2**31))
        training = {
            "epochs": self.epochs,
            "batch_size": self.batch_size,
            "device": self.device,
            "random_state": seed,
        }
        further = dict(self.training_options or {})
        doubled = sorted(training.keys() & further.keys())
        if doubled:
            raise InvalidInputError(f"training_options must not repeat {doubled[0]!r}: it is an argument of its own")
        return Recipe.from_names(
            self.method,
            self.calibrator,
            self.backbone,
            self.method_options,
            self.calibrator_options,
            training | further,
            self.freeze_backbone,
        )

    def _source(self, X: Any, y: Any) -> tuple[Any, Any]:
        """The rows, as `encoder_for` takes them, and their labels."""
        if isinstance(X, LabelledDomain) and y is None:
            return X.inputs, [X.classes[code] for code in X.labels]
        if isinstance(X, Dataset) and y is None:
            return inputs_from(X, "X"), labels_of_dataset(X, "X")
        if y is None:
            raise InvalidInputError(
                "labels are missing in the source: this classifier requires y to be passed, but the target y is None"
            )
        X, y = plain_rows(X, "X"), as_label_list(y, "y")
        if _is_checked(X):
            check_kind(X, "X")
            with _as_own_error("X and y"):
                if _has_labels_of_other_kinds(y):
                    checked = self._validated(X, reset=True)
                else:
                    checked, y = self._validated(X, y=y, multi_output=False, reset=True)
                    check_classification_targets(y)
            # A frame keeps the names of its columns.
            X = X if hasattr(X, "iloc") else checked
        elif not hasattr(X, "iloc"):
            X = inputs_from(X, "X")
        return X, y

    def _rows(self, X: Any, name: str, **settings: Any) -> Any:
        """A pandas frame, a sparse matrix, an array of numbers or inputs."""
        X = plain_rows(X, name)
        if hasattr(X, "iloc"):
            return X
        if not _is_checked(X):
            return inputs_from(X, name)
        check_kind(X, name)
        with _as_own_error(name):
            return self._validated(X, reset=False, **settings)

    def _validated(self, X: Any, **settings: Any) -> Any:
        """By scikit-learn's own checks; gaps are allowed."""
        checks = {"dtype": np.float32, "accept_sparse": "csr", "ensure_all_finite": "allow-nan"}
        return validate_data(self, X, **checks | settings)

    def _inputs(self, X: Any, name: str) -> Inputs:
        encoder = self.model_.encoder
        # Numbers that become features as they are, are asked then whether they are finite: once is enough.
        settings = {"ensure_all_finite": False} if encoder is None else {}
        return encoded_inputs(self._rows(X, name, **settings), encoder, name)

    def _joined(
        self, X: Any, part: Callable[[Predicted], Tensor | None], coverage: float | None = None
    ) -> NDArray[Any]:
        """A part of what is predicted, for all rows."""
        check_is_fitted(self)
        inputs = self._inputs(X, "X")
        num_seen, whole = 0, np.empty(0)
        for batch in self.model_.predict_batches(inputs, coverage):
            rows = part(batch)
            assert rows is not None
            # Filled batch by batch: nothing but the result grows with the rows.
            whole = whole if num_seen else np.empty((len(inputs), *rows.shape[1:]), rows.numpy().dtype)
            whole[num_seen : num_seen + len(rows)] = rows.numpy()
            num_seen += len(rows)
        return whole

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        tags.input_tags.sparse = True
        tags.non_deterministic = False
        return tags


@contextmanager
def _as_own_error(name: str) -> Iterator[None]:
    """Errors of scikit-learn's checks as errors of this library that say which argument is meant."""
    try:
        yield
    except (InvalidInputError, Warning):
        raise
    except Exception as error:  # also of turning an object of the user's own into an array
        kind = InvalidTypeError if isinstance(error, TypeError) else InvalidInputError
        raise kind(f"{name}: {error}") from error


def _has_labels_of_other_kinds(y: Any) -> bool:
    """Whether NumPy would make something else of these labels, or scikit-learn's checks refuse them.

    That is: labels of several types, and all but text, numbers, and rows of a matrix, which it is to refuse.
    """
    is_array = getattr(y, "ndim", None) == 1 and hasattr(y, "dtype")
    if not isinstance(y, (list, tuple)) and not is_array:
        return False
    kind = getattr(y.dtype, "kind", "O") if is_array else "O"
    if kind != "O":
        return kind not in "biufcUT"
    kinds = {type(label) for label in y}
    usual = (str, int, float, complex, np.generic, torch.Tensor, list, np.ndarray)
    return (
        (len(kinds) > 1 and str in kinds)
        or not all(issubclass(kind, usual) for kind in kinds)
        or bool(kinds & {bytes, np.bytes_})
        or any(abs(label) >= 2**63 for label in y if type(label) is int)
    )


def _is_checked(X: Any) -> bool:
    """Whether scikit-learn's own checks apply: numbers in arrays, sparse ones too, and anything it should refuse."""
    if hasattr(X, "iloc"):
        return is_numeric_frame(X)
    known = (Inputs, LabelledDomain, UnlabelledDomain, Dataset, torch.Tensor)
    return not isinstance(X, known) and getattr(X, "ndim", 2) <= 2
