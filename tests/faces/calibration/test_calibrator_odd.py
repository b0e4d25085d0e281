"""Odd models, data and features: each ends well or with one clear message, never in the middle of somewhere."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import sparse
from sklearn.linear_model import LogisticRegression
from torch import nn

from shiftcal import ShiftCalibrator
from shiftcal.core.errors import ShiftcalError

pytestmark = pytest.mark.usefixtures("quick_estimate")

GENERATOR = np.random.default_rng(0)
Y = np.arange(40) % 2
X = 2 * Y[:, None] + GENERATOR.normal(size=(40, 3))
T = X[:9] + 0.2
LINEAR = LogisticRegression().fit(X, Y)


def said(rows: Any) -> np.ndarray:
    return np.asarray(LINEAR.predict_proba(rows))


def even(rows: Any) -> np.ndarray:
    """A model that takes anything with a length."""
    return np.full((len(rows), 2), 0.5)


MODELS: dict[str, Any] = {
    "none": lambda _: None,
    "tuple": lambda rows: (said(rows),),
    "list": lambda rows: said(rows).tolist(),
    "fewer rows": lambda rows: said(rows)[:-1],
    "three dimensions": lambda rows: said(rows)[:, :, None],
    "scalar": lambda _: 0.5,
    "text": lambda _: "abc",
    "texts": lambda rows: ["a"] * len(rows),
    "objects": lambda rows: np.array([object()] * len(rows)),
    "complex": lambda rows: said(rows).astype(complex),
    "dates": lambda rows: np.full((len(rows), 2), np.datetime64("2020")),
    "bool": lambda rows: said(rows) > 0.5,
    "no columns": lambda rows: np.ones((len(rows), 0)),
    "one column": lambda rows: said(rows)[:, :1],
    "other columns": lambda rows: said(rows) if len(rows) > 9 else np.ones((len(rows), 3)) / 3,
    "mapping": lambda _: {"a": 1},
    "infinite": lambda rows: np.where(said(rows) > 0.5, np.inf, 0),
    "frame": lambda rows: pd.DataFrame(said(rows)),
    "sparse": lambda rows: sparse.csr_matrix(said(rows)),
    "half precision": lambda rows: torch.tensor(said(rows)).bfloat16(),
    "gradients": lambda rows: torch.tensor(said(rows), requires_grad=True),
    "zeros": lambda rows: np.zeros((len(rows), 2)),
    "huge": lambda rows: said(rows) * 1e300,
    "ragged": lambda rows: [[1.0], *[[1.0, 2.0]] * (len(rows) - 1)],
    "iterator": lambda rows: iter(said(rows)),
    "labels": LINEAR.predict,
    "a class": LogisticRegression,
    "unfitted": LogisticRegression(),
    "nothing": None,
    "number": 3,
    "no layer": nn.Identity(),
}
DATES = pd.DataFrame({"a": pd.date_range("2020", periods=40), "b": X[:, 0]})
DATA: dict[str, Callable[[], tuple[Any, Any, Any]]] = {
    "no labels": lambda: (X, None, T),
    "one label": lambda: (X, 1, T),
    "text as labels": lambda: (X, "ab", T),
    "one-hot": lambda: (X, np.eye(2)[Y], T),
    "missing labels": lambda: (X, np.where(Y, np.nan, 0.0), T),
    "bool labels": lambda: (X, Y.astype(bool), T),
    "one class": lambda: (X, 0 * Y, T),
    "set of labels": lambda: (X, {1, 2}, T),
    "unhashable labels": lambda: (X, [[1]] * 40, T),
    "no rows": lambda: (X[:0], Y[:0], T),
    "one row": lambda: (X[:1], Y[:1], T),
    "one target row": lambda: (X, Y, T[:1]),
    "numbers": lambda: (X[:, 0], Y, T[:, 0]),
    "a number": lambda: (5, Y, T),
    "a text": lambda: ("abc", Y, T),
    "nothing": lambda: (None, Y, T),
    "no target": lambda: (X, Y, None),
    "objects": lambda: (X.astype(object), Y, T.astype(object)),
    "other columns": lambda: (X, Y, T[:, :2]),
    "ragged": lambda: ([[1], [1, 2]] * 20, Y, [[1], [2, 3]]),
    "missing": lambda: (np.where(X > 1, np.nan, X), Y, T),
    "infinite": lambda: (np.where(X > 1, np.inf, X), Y, T),
    "huge": lambda: (X * 1e200, Y, T * 1e200),
    "dates": lambda: (DATES, Y, DATES[:9]),
    "frame without columns": lambda: (pd.DataFrame(index=range(40)), Y, pd.DataFrame(index=range(9))),
    "frame and array": lambda: (pd.DataFrame(X), Y, T),
    "sparse and dense": lambda: (sparse.csr_matrix(X), Y, T),
    "set": lambda: (set(range(40)), Y, {1, 2}),
    "empty mapping": lambda: ({}, Y, {}),
    "complex": lambda: (X + 1j, Y, T + 1j),
}
FEATURES: dict[str, Callable[[Any], Any]] = {
    "none": lambda _: None,
    "text": lambda _: "a",
    "one dimension": lambda rows: rows[:, 0],
    "few rows": lambda rows: rows[:3],
    "missing": lambda rows: rows * np.nan,
    "constant": lambda rows: 0 * rows,
    "other columns": lambda rows: rows if len(rows) > 9 else rows[:, :1],
    "no columns": lambda rows: rows[:, :0],
    "tuple": lambda rows: (rows,),
    "sparse": sparse.csr_matrix,
}
CASES = (
    [(f"model: {name}", ShiftCalibrator(model), lambda: (X, Y, T)) for name, model in MODELS.items()]
    + [(f"data: {name}", ShiftCalibrator(model), make) for name, make in DATA.items() for model in (LINEAR, even)]
    + [
        (f"features: {name}", ShiftCalibrator(LINEAR, features=own), lambda: (X, Y, T))
        for name, own in FEATURES.items()
    ]
)


def test_odd_things_end_well_or_with_a_clear_message() -> None:
    wrong = []
    for name, calibrator, make in CASES:
        given = make()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                calibrator.fit(*given)
                found = calibrator.predict_proba(given[2])
            assert np.isfinite(found).all(), name
            np.testing.assert_allclose(found.sum(axis=1), 1)
        except ShiftcalError:
            continue
        except Exception as error:  # of the model itself: shown as such, with the rows it was asked about
            if "so the model failed when asked about" not in "".join(getattr(error, "__notes__", ())):
                wrong.append((name, repr(error)))
    assert not wrong
