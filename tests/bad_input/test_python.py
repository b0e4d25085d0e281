"""The same from Python: a named error that says what is wrong."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from tests.bad_input.files import DAMAGES, feature_arrays, with_value
from torch.utils.data import Dataset

from shiftcal import AdaptiveClassifier
from shiftcal.core.errors import CheckpointError, InvalidInputError, OutputError, ShiftcalError, UserCodeError

FEATURES = feature_arrays()["x"]
LABELS = feature_arrays()["y"]
PICTURES = np.zeros((45, 8, 8), np.uint8)


class Items(Dataset[Any]):
    """A dataset of the user's own, by a function of the row."""

    def __init__(self, item: Callable[[int], Any], length: Any = 45) -> None:
        self.item, self.length = item, length

    def __len__(self) -> Any:
        return self.length

    def __getitem__(self, row: int) -> Any:
        return self.item(row)


def broken(row: int) -> tuple[torch.Tensor, int]:
    if row == 17:
        raise KeyError("the file is gone")
    return torch.zeros(4), row % 3


def only_in_row_17(value: Any) -> Items:
    return Items(lambda row: (value if row == 17 else torch.zeros(4), row % 3))


class Unwritten:
    def __str__(self) -> str:
        raise RuntimeError("no text")


class Unconvertible:
    def __array__(self, *_: Any, **__: Any) -> Any:
        raise RuntimeError("no array")


BAD_ARRAYS: dict[str, tuple[dict[str, Any], str]] = {
    "nothing": ({"X": None}, "X: expected float features.*got None"),
    "nothing as the target": ({"X_target": []}, "X_target.*2D"),
    "text": ({"X": "photos"}, "X: expected float features.*'photos'"),
    "a mapping": ({"X": {"a": FEATURES}}, "X: expected float features"),
    "a generator": ({"X": iter(FEATURES)}, "X: expected float features"),
    "sparse tensor": ({"X": torch.eye(4).to_sparse()}, "X: expected an ordinary dense tensor"),
    "ragged": ({"X": [[1.0, 2.0], [3.0]]}, "X and y.*inhomogeneous"),
    "no features": ({"X": torch.zeros(45, 0)}, "at least one row and column"),
    "no pixels": ({"X": PICTURES[:, :0]}, "at least one row and column"),
    "an object that raises": ({"X": Unconvertible()}, "X and y: no array"),
    "dataset that raises": ({"X": Items(broken), "y": None}, "item 17 of the dataset Items raised KeyError.*gone"),
    "target that raises": ({"X_target": Items(broken)}, "item 17 of the dataset Items raised KeyError.*gone"),
    "ragged dataset": ({"X": only_in_row_17(torch.zeros(5)), "y": None}, r"item 17.*\(5,\).*\(4,\)"),
    "NaN dataset": ({"X": only_in_row_17(torch.full((4,), torch.nan)), "y": None}, "item 17.*NaN"),
    "NaN target dataset": ({"X_target": only_in_row_17(torch.full((4,), torch.nan))}, "item 17.*NaN"),
    "None in a dataset": ({"X": only_in_row_17(None), "y": None}, "tensors.*NoneType in item 17"),
    "empty items": ({"X": Items(lambda _: ()), "y": None}, "got tuple in item 0"),
    "empty dataset": ({"X": Items(broken, 0), "y": None}, "at least one item"),
    "dataset of a strange length": ({"X": Items(broken, "x"), "y": None}, "length of the dataset Items raised"),
    "labels that are text": ({"X": PICTURES, "y": "ab" * 20}, "y: expected labels in a list or array"),
    "labels that are a set": ({"X": PICTURES, "y": set(range(45))}, "y: expected labels in a list or array"),
    "one label": ({"X": PICTURES, "y": 3}, "y: expected labels in a list or array"),
    "an array of one label": ({"X": PICTURES, "y": np.array(3)}, "a single value"),
    "labels that are lists": ({"X": PICTURES, "y": [[0], [1], [2]] * 15}, r"got \[0\] in row 0"),
    "labels without text": ({"y": [Unwritten(), Unwritten(), 1] * 15}, "labels.*RuntimeError: no text"),
    "labels of 5,000 digits": ({"y": [10**5000, 1, 2] * 15}, "labels.*digits"),
    "labels that are None": ({"y": [None, 1, 2] * 15}, "15 of 45 labels are missing"),
    "infinity": ({"X": with_value(np.inf)["x"]}, "X.*infinity"),
    "infinity in the target": ({"X_target": with_value(np.inf)["x"]}, "X_target.*infinity"),
    "infinity beside NaN": ({"X": np.where(np.eye(45, 4), np.nan, with_value(np.inf)["x"])}, "X.*infinity"),
    "NaN in a tensor": ({"X": torch.from_numpy(with_value(np.nan)["x"])}, "NaN or infinite"),
    "one dimension": ({"X": FEATURES[:, 0]}, "2D"),
    "no rows": ({"X": FEATURES[:0], "y": LABELS[:0]}, "0 sample"),
    "float pictures": ({"X": PICTURES / 255}, "uint8"),
    "four channels": ({"X": np.zeros((45, 8, 8, 4), np.uint8)}, "1 or 3 channels"),
    "NaN pictures": ({"X": torch.full((45, 1, 8, 8), torch.nan)}, "NaN or infinite"),
    "target of another shape": ({"X_target": FEATURES[:, :2]}, "X_target.*2 features.*4 features"),
    "target pictures of another shape": (
        {"X": PICTURES, "X_target": PICTURES[:, :4]},
        r"X_target.*\(1, 8, 8\).*\(1, 4, 8\)",
    ),
    "fewer labels": ({"y": LABELS[:-1]}, "45, 44"),
    "fewer labels of pictures": ({"X": PICTURES, "y": LABELS[:-1]}, "45 rows.*44 labels"),
    "no labels": ({"y": None}, "labels are missing"),
    "missing labels": ({"X": torch.from_numpy(FEATURES), "y": [None, *LABELS[1:]]}, "1 of 45 labels are missing"),
    "one class": ({"y": np.full(45, "cat")}, "two classes.*'cat'"),
    "continuous labels": ({"y": np.linspace(0, 1, 45)}, "continuous"),
}


@pytest.mark.parametrize("case", BAD_ARRAYS)
def test_arrays(case: str) -> None:
    changes, words = BAD_ARRAYS[case]
    arguments = {"X": FEATURES, "y": LABELS, **changes}
    with pytest.raises(ShiftcalError, match=f"(?s){words}") as refused:
        AdaptiveClassifier(epochs=1).fit(**arguments)
    # A mistake in what was given is a ValueError; one in the user's own code has its cause.
    assert isinstance(refused.value, ValueError) != isinstance(refused.value, UserCodeError)
    assert isinstance(refused.value, UserCodeError) == (" raised " in str(refused.value))


BAD_ARGUMENTS: dict[str, tuple[dict[str, Any], str]] = {
    "method": ({"method": "drll"}, "Did you mean 'drl'"),
    "calibrator": ({"calibrator": "temprature"}, "Did you mean 'temperature'"),
    "backbone": ({"backbone": "mpl"}, "Did you mean 'mlp'"),
    "backbone type": ({"backbone": 3}, "name or an nn.Module"),
    "method option": ({"method": "drl", "method_options": {"ratio_bond": 2}}, "Did you mean 'ratio_bound'"),
    "method value": ({"method": "drl", "method_options": {"ratio_bound": 1}}, "more than 1"),
    "calibrator option": (
        {"calibrator": "histogram", "calibrator_options": {"num_bin": 2}},
        "Did you mean 'num_bins'",
    ),
    "options of no calibrator": (
        {"method": "drl", "calibrator_options": {"num_bins": 2}},
        "expected a calibrator",
    ),
    "training option": ({"training_options": {"worker": 2}}, "Did you mean 'num_workers'"),
    "doubled option": ({"training_options": {"epochs": 2}}, "repeat 'epochs'"),
    "epochs": ({"epochs": 0}, "at least 1"),
    "device": ({"device": "gpu"}, "'gpu'"),
}


@pytest.mark.parametrize("case", BAD_ARGUMENTS)
def test_arguments(case: str) -> None:
    changes, words = BAD_ARGUMENTS[case]
    with pytest.raises(InvalidInputError, match=words):
        AdaptiveClassifier(**{"epochs": 1, **changes}).fit(FEATURES, LABELS)


@pytest.mark.parametrize(
    ("run", "inputs", "words"),
    [
        ("run", FEATURES[:, :2], "2 features.*4 features"),
        ("run", torch.zeros(3, 2), r"\(4,\).*\(2,\)"),
        ("run", with_value(np.nan)["x"], "NaN"),
        ("run", PICTURES, r"\(4,\).*\(1, 8, 8\)"),
        ("picture_run", FEATURES, r"\(3, 32, 32\).*\(4,\)"),
    ],
)
def test_arrays_to_predict(run: str, inputs: Any, words: str) -> None:
    classifier = AdaptiveClassifier.load(run)
    with pytest.raises(InvalidInputError, match=f"(?s){words}"):
        classifier.predict_proba(inputs)


@pytest.mark.parametrize("run", [*DAMAGES, "nowhere", "words.md"])
def test_loading_a_bad_run(run: str) -> None:
    with pytest.raises(CheckpointError):
        AdaptiveClassifier.load(run)


def test_saving_where_nothing_can_be_written() -> None:
    with pytest.raises(OutputError, match="can't write"):
        AdaptiveClassifier.load("run").save("words.md/run")
