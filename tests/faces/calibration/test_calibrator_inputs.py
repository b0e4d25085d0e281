"""What first users hold in their hands: missing values, texts, loaders, streams, odd labels, odd columns."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import sparse
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from shiftcal import ShiftCalibrator
from shiftcal.calibrators.target_scaling import TargetScaling
from shiftcal.core.errors import InvalidInputError, ShiftcalError

pytestmark = pytest.mark.usefixtures("coarse_estimate")
GENERATOR = np.random.default_rng(0)


def domain(num_rows: int, moved: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    labels = GENERATOR.integers(0, 3, num_rows)
    inputs = 3 * np.eye(3, 5)[labels] + GENERATOR.normal(size=(num_rows, 5))
    inputs[:, 4] += moved
    return inputs, labels


X, Y = domain(120)
T = domain(90, moved=1.0)[0]
LINEAR = LogisticRegression().fit(*domain(150))


class Counted:
    """A function that counts the rows it is asked about."""

    def __init__(self) -> None:
        self.num_rows = 0

    def __call__(self, inputs: Any) -> np.ndarray:
        self.num_rows += len(inputs)
        return np.asarray(LINEAR.predict_proba(inputs))


@pytest.fixture(autouse=True, scope="module")
def _quick() -> Iterator[None]:
    """An estimate that costs nothing: how data come in is the question here."""
    with pytest.MonkeyPatch.context() as patch:
        quick = partial(TargetScaling, estimator="mean-confidence")
        patch.setattr("shiftcal.faces.calibration.fitted_calibration.TargetScaling", quick)
        yield


@pytest.fixture(scope="module")
def expected() -> np.ndarray:
    return np.asarray(ShiftCalibrator(LINEAR).fit(X, Y, T).predict_proba(T))


def test_a_model_that_takes_missing_values_gets_them() -> None:
    holes, target = X.copy(), T.copy()
    holes[::7, 2], target[::5, 3] = np.nan, np.nan
    boosted = HistGradientBoostingClassifier(max_iter=5).fit(holes, Y)
    imputing = make_pipeline(SimpleImputer(), LogisticRegression()).fit(holes, Y)
    for model in (boosted, imputing):
        calibrated = ShiftCalibrator(model).fit(holes, Y, target)
        found = calibrated.predict_proba(target)
        assert np.isfinite(found).all()
        np.testing.assert_array_equal(found.argmax(axis=1), model.predict_proba(target).argmax(axis=1))


def test_a_row_of_which_the_model_says_nan_is_named() -> None:
    calibrated = ShiftCalibrator(lambda rows: rows[:, :3] * 10).fit(X, Y, T)
    bad = T.copy()
    bad[[3, 8], 0] = np.nan
    with pytest.raises(InvalidInputError, match="2 rows: 3, 8"):
        calibrated.predict_proba(bad)


@pytest.mark.parametrize(
    "labels",
    [pd.DataFrame({"y": Y}), pd.Series(Y), Y[:, None], torch.from_numpy(Y), Y.astype(object), tuple(Y.tolist())],
    ids=lambda labels: type(labels).__name__,
)
def test_labels_of_any_make(labels: Any) -> None:
    reader = ShiftCalibrator(LINEAR)
    assert reader.fit(X, labels, T).classes_.tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        (None, "expected labels"),
        (3, "expected labels in a list or array, one for each row; got 3"),
        (np.eye(3)[Y], "got 3 columns; of one-hot labels give the argmax"),
        ([None, *Y[1:]], "1 of 120 labels are missing"),
        (Y[:50], "one label for each of 120 rows, got 50"),
    ],
)
def test_labels_that_are_none_are_refused(labels: Any, words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        ShiftCalibrator(LINEAR).fit(X, labels, T)


def batches(inputs: np.ndarray, labels: np.ndarray | None = None) -> Iterator[Any]:
    for start in range(0, len(inputs), 50):
        part = slice(start, start + 50)
        yield inputs[part] if labels is None else (inputs[part], labels[part])


def test_loaders_datasets_and_generators_give_what_arrays_give(expected: np.ndarray) -> None:
    module = nn.Linear(5, 3)
    with torch.no_grad():
        module.weight.copy_(torch.from_numpy(LINEAR.coef_))
        module.bias.copy_(torch.from_numpy(LINEAR.intercept_))
    dataset = TensorDataset(torch.from_numpy(X), torch.from_numpy(Y))
    target = TensorDataset(torch.from_numpy(T))
    for given, others in ((dataset, target), (DataLoader(dataset, 50), DataLoader(target, 50))):
        calibrated = ShiftCalibrator(module, features="input").fit(given, X_target=others)
        np.testing.assert_allclose(calibrated.predict_proba(others), expected, atol=1e-3)
    calibrated = ShiftCalibrator(LINEAR).fit(batches(X, Y), X_target=batches(T))
    np.testing.assert_allclose(calibrated.predict_proba(batches(T)), expected, atol=1e-12)
    streamed = list(calibrated.iter_predict_proba(batches(T)))
    assert [len(part) for part in streamed] == [50, 40]


def test_the_model_is_asked_about_each_row_once() -> None:
    model = Counted()
    calibrated = ShiftCalibrator(model).fit(X, Y, T)
    assert model.num_rows == len(X) + len(T)
    calibrated.predict_proba(T)
    assert model.num_rows == len(X) + 2 * len(T)


def test_of_very_many_rows_a_sample_is_asked_about() -> None:
    model = Counted()
    ShiftCalibrator(model, features="none").fit(X, Y, np.tile(T, (400, 1)))
    assert model.num_rows == len(X) + 20_000


def test_a_row_alone_is_understood_as_in_a_batch() -> None:
    rounded = ShiftCalibrator(lambda rows: LINEAR.predict_proba(rows).round(2)).fit(X, Y, T)
    together = rounded.predict_proba(T)
    for row in range(0, 90, 10):
        np.testing.assert_allclose(rounded.predict_proba(T[row : row + 1])[0], together[row], atol=1e-12)


def test_millions_of_empty_columns_cost_nothing() -> None:
    places = GENERATOR.integers(0, 2**20, (3, 40))
    rows = [places[label][GENERATOR.integers(0, 40, 15)] for label in np.arange(150) % 3]
    hashed = sparse.csr_matrix((np.ones(150 * 15), np.concatenate(rows), np.arange(0, 2251, 15)), shape=(150, 2**20))
    labels = np.arange(150) % 3

    def model(inputs: sparse.csr_matrix) -> np.ndarray:
        return np.stack([np.asarray(inputs[:, own].sum(axis=1)).ravel() for own in places], axis=1)

    calibrated = ShiftCalibrator(model).fit(hashed[:90], labels[:90], hashed[90:])
    assert calibrated.predict_proba(hashed[90:]).shape == (60, 3)


def test_the_unit_of_all_features_does_not_matter(expected: np.ndarray) -> None:
    for unit in (1e-9, 1e9):
        tiny = ShiftCalibrator(lambda rows, unit=unit: LINEAR.predict_proba(rows / unit))
        found = tiny.fit(X * unit, Y, T * unit).predict_proba(T * unit)
        np.testing.assert_allclose(found, expected, atol=1e-5)


def test_a_frozen_model_survives_clone_pipelines_and_cross_validation(expected: np.ndarray) -> None:
    with pytest.raises(InvalidInputError, match="FrozenEstimator"):
        clone(ShiftCalibrator(LINEAR)).fit(X, Y, T)
    frozen = ShiftCalibrator(FrozenEstimator(LINEAR))
    np.testing.assert_allclose(clone(frozen).fit(X, Y, T).predict_proba(T), expected)
    found = cross_val_predict(frozen, X, Y, cv=2, method="predict_proba", params={"X_target": T})
    assert found.shape == (120, 3)
    steps = Pipeline([("calibrated", frozen)]).fit(X, Y, calibrated__X_target=T)
    np.testing.assert_allclose(steps.predict_proba(T), expected)
    with pytest.raises(InvalidInputError, match="params="):
        frozen.fit(X, Y)


def test_frames_out_and_logarithms(expected: np.ndarray) -> None:
    calibrated = ShiftCalibrator(LINEAR).fit(X, Y, T).set_output(transform="pandas")
    frame = calibrated.predict_proba(T)
    assert isinstance(frame, pd.DataFrame)
    assert list(frame.columns) == [0, 1, 2]
    np.testing.assert_allclose(calibrated.predict_log_proba(T), np.log(expected))
    np.testing.assert_allclose(calibrated.set_output(transform="default").predict_proba(T), expected)


@pytest.mark.parametrize("rows", [np.empty((0, 5)), [], iter(())], ids=["array", "list", "iterator"])
def test_no_rows_are_refused(rows: Any) -> None:
    with pytest.raises(InvalidInputError, match="X_target: expected at least one row"):
        ShiftCalibrator(LINEAR, features="none").fit(X, Y, rows)


def test_columns_that_the_model_was_fitted_with_or_without_are_named() -> None:
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(60, 3)), columns=["age", "income", "unused"])
    labels = (frame["age"] > 0).to_numpy()
    plain = LogisticRegression().fit(frame[["age", "income"]], labels)
    some = make_column_transformer((StandardScaler(), ["age", "income"]))
    pipeline = make_pipeline(some, LogisticRegression()).fit(frame, labels)
    for model, known in ((plain, ["age", "income"]), (pipeline, list(frame))):
        calibrated = ShiftCalibrator(model)
        with pytest.raises(
            InvalidInputError, match=r"X_target: columns are missing .* 'income'.* The table has 'age'"
        ):
            calibrated.fit(frame[known], labels, frame[["age"]])
    with pytest.raises(InvalidInputError, match="leave out columns that the model was fitted without: 'unused'"):
        ShiftCalibrator(plain).fit(frame, labels, frame)
    # What a pipeline knows and does not need may be missing.
    ShiftCalibrator(pipeline, features="none").fit(frame[["age", "income"]], labels, frame[["income", "age"]])


def test_predict_before_fit_and_other_columns_are_refused() -> None:
    with pytest.raises(NotFittedError):
        ShiftCalibrator(LINEAR).predict(T)
    calibrated = ShiftCalibrator(lambda rows: LINEAR.predict_proba(rows[:, :5])).fit(X, Y, T)
    with pytest.raises(InvalidInputError, match="expected 5 columns, dense, as in fit, got 6"):
        calibrated.predict_proba(np.hstack([T, T[:, :1]]))


def test_what_was_learned_is_saved_without_the_model(expected: np.ndarray, tmp_path: Path) -> None:
    calibrated = ShiftCalibrator(LINEAR).fit(X, Y, T)
    calibrated.save(tmp_path / "calibrated.npz")
    again = ShiftCalibrator.load(tmp_path / "calibrated.npz", LINEAR)
    np.testing.assert_array_equal(again.predict_proba(T), expected)
    np.testing.assert_array_equal(again.predict_set(T), calibrated.predict_set(T))
    np.testing.assert_array_equal(again.predict(T), calibrated.predict(T))
    assert again.verdict_ == calibrated.verdict_
    assert again.estimate(T).as_plain() == calibrated.estimate(T).as_plain()
    (tmp_path / "damaged.npz").write_bytes((tmp_path / "calibrated.npz").read_bytes()[:-200])
    for name, words in (("damaged.npz", "not a calibration"), ("absent.npz", "no calibration at")):
        with pytest.raises(ShiftcalError, match=words):
            ShiftCalibrator.load(tmp_path / name, LINEAR)


def test_columns_in_another_order_are_known_by_their_names() -> None:
    """The model takes them by name, too."""
    frame = pd.DataFrame({"small": X[:, 0] / 100, "usual": X[:, 1], "large": 100 * X[:, 2]})
    model = make_pipeline(make_column_transformer((StandardScaler(), list(frame))), LogisticRegression()).fit(
        frame, Y
    )
    as_given = ShiftCalibrator(model).fit(frame, Y, frame[::2])
    turned = ShiftCalibrator(model).fit(frame, Y, frame[::2][["large", "usual", "small"]])
    assert "LOOK AT THE INPUTS" not in turned.verdict_
    assert turned.verdict_ == as_given.verdict_
    other = as_given.estimate(frame[::2][["large", "usual", "small"]])
    assert other.interval == as_given.estimate(frame[::2]).interval
