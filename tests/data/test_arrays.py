from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils.data import Dataset, IterableDataset, TensorDataset

from shiftcal.core.errors import InvalidInputError
from shiftcal.data.arrays import encode_labels, inputs_from, labels_of_dataset
from shiftcal.data.domains import LabelledDomain, UnlabelledDomain
from shiftcal.data.inputs import ArrayInputs, DatasetInputs
from shiftcal.data.rows import plain_rows

FEATURES = [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
BOTH = np.array([0, 1])


class Table:
    """What a data frame shows of itself: dimensions, and an array on request."""

    ndim = 2

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        return np.array(FEATURES, dtype=dtype)


@pytest.mark.parametrize(
    "values",
    [
        FEATURES,
        Table(),
        np.array(FEATURES),
        np.array(FEATURES, dtype=np.float16),
        np.array(FEATURES, dtype=np.uint8),
        np.array(FEATURES).T.copy().T,
        torch.tensor(FEATURES, dtype=torch.float64, requires_grad=True),
        torch.tensor(FEATURES, dtype=torch.bfloat16),
        torch.tensor(FEATURES, dtype=torch.int32),
    ],
    ids=["list", "table", "float64", "float16", "uint8", "strided", "tensor", "bfloat16", "int32"],
)
def test_features_become_float32(values: Any) -> None:
    inputs = inputs_from(values, "X")
    assert (inputs.kind, inputs.shape, len(inputs)) == ("features", (3,), 2)
    fetched = inputs.fetch(BOTH)
    assert fetched.dtype == torch.float32
    assert not fetched.requires_grad
    assert fetched.tolist() == FEATURES


def test_truth_values_are_features() -> None:
    assert inputs_from(np.array([[True], [False]]), "X").fetch(BOTH).tolist() == [[1.0], [0.0]]


@pytest.mark.parametrize(("shape", "channels"), [((2, 4, 5), 1), ((2, 4, 5, 1), 1), ((2, 4, 5, 3), 3)])
def test_pixel_arrays_are_channels_last(shape: tuple[int, ...], channels: int) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    inputs = inputs_from(pixels, "X")
    assert (inputs.kind, inputs.shape) == ("images", (channels, 4, 5))
    expected = pixels.reshape(2, 4, 5, channels).transpose(0, 3, 1, 2) / 255
    np.testing.assert_allclose(inputs.fetch(BOTH).numpy(), expected, rtol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16])
def test_image_tensors_are_channels_first(dtype: torch.dtype) -> None:
    images = torch.linspace(0, 1, 2 * 3 * 4 * 5).view(2, 3, 4, 5).to(dtype)
    inputs = inputs_from(images, "X")
    assert (inputs.kind, inputs.shape) == ("images", (3, 4, 5))
    assert torch.equal(inputs.fetch(BOTH), images.float())


def test_inputs_and_domains_are_taken_as_they_are() -> None:
    inputs = ArrayInputs(torch.zeros(2, 3))
    assert inputs_from(inputs, "X") is inputs
    assert inputs_from(UnlabelledDomain("here", inputs), "X") is inputs
    assert inputs_from(LabelledDomain("here", inputs, BOTH, ("a", "b")), "X") is inputs


def test_datasets_are_read_item_by_item() -> None:
    inputs = inputs_from(TensorDataset(torch.tensor(FEATURES), torch.tensor([0, 1])), "X")
    assert isinstance(inputs, DatasetInputs)
    assert inputs.fetch(BOTH).tolist() == FEATURES


@pytest.mark.parametrize(
    ("values", "found"),
    [
        (np.zeros(3), r"got dtype float64, shape \(3,\)"),
        (np.zeros((2, 3), dtype=complex), r"got dtype complex128, shape \(2, 3\)"),
        (np.array([["a", "b"]]), r"got dtype <U1, shape \(1, 2\)"),
        ([["a"], [None]], r"got dtype object, shape \(2, 1\)"),
        ([[1.0], [1.0, 2.0]], "inhomogeneous"),
        (None, "got None"),
        ("images.npz", "got 'images.npz'"),
        (np.zeros((2, 4, 4, 3)), r"got dtype float64, shape \(2, 4, 4, 3\)"),
        (np.zeros((2, 4, 4, 3, 1), dtype=np.uint8), r"got dtype uint8, shape \(2, 4, 4, 3, 1\)"),
        (torch.zeros(2, 3, 4, 4, dtype=torch.uint8), r"got dtype torch.uint8, shape \(2, 3, 4, 4\)"),
        (torch.zeros(2, 4, 4), r"got dtype torch.float32, shape \(2, 4, 4\)"),
    ],
)
def test_what_is_not_accepted_is_told_what_is(values: Any, found: str) -> None:
    with pytest.raises(InvalidInputError, match=rf"^my X: expected float features \(N, D\), images .*{found}"):
        inputs_from(values, "my X")


@pytest.mark.parametrize("shape", [(2, 3, 4, 4), (2, 4, 4, 4), (2, 4, 4, 2)])
def test_pixels_need_one_or_three_channels_last(shape: tuple[int, ...]) -> None:
    with pytest.raises(InvalidInputError, match=r"X: expected images with 1 or 3 channels last, \(N, H, W, C\)"):
        inputs_from(np.zeros(shape, dtype=np.uint8), "X")


@pytest.mark.parametrize(
    "values", [np.zeros((0, 3)), np.zeros((0, 4, 4), dtype=np.uint8), torch.zeros(0, 3, 4, 4), torch.zeros(0, 3)]
)
def test_no_rows_at_all(values: Any) -> None:
    with pytest.raises(InvalidInputError, match=r"X: expected at least one row and column, got shape \(0, "):
        inputs_from(values, "X")


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e300])
def test_features_that_are_not_finite_are_counted(bad: float) -> None:
    values = np.zeros((4, 2))
    values[1, 0] = values[3] = bad
    with pytest.raises(InvalidInputError, match=r"X: 2 of 4 rows have NaN or infinite features .*first is row 1"):
        inputs_from(values, "X")


def test_images_that_are_not_finite_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="X: images have NaN or infinite values"):
        inputs_from(torch.full((1, 1, 2, 2), torch.nan), "X")


def test_iterable_datasets_have_no_rows_to_choose() -> None:
    class Stream(IterableDataset[Tensor]):
        def __iter__(self) -> Iterator[Tensor]:
            return iter([torch.zeros(2)])

    with pytest.raises(InvalidInputError, match=r"X: expected a dataset with a length .*got the iterable Stream"):
        inputs_from(Stream(), "X")


class Items(Dataset[Any]):
    def __init__(self, items: list[Any], **attributes: Any) -> None:
        self.items = items
        self.__dict__ |= attributes

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, row: int) -> Any:
        return self.items[row]


@pytest.mark.parametrize("attribute", ["targets", "labels"])
@pytest.mark.parametrize("values", [[2, 0], np.array([2, 0]), torch.tensor([2, 0])], ids=["list", "array", "tensor"])
def test_labels_come_from_attributes_without_reading_items(attribute: str, values: Any) -> None:
    assert labels_of_dataset(Items([None, None], **{attribute: values}), "X") == [2, 0]


def test_labels_come_from_items_where_there_is_no_attribute() -> None:
    assert labels_of_dataset(TensorDataset(torch.zeros(2, 3), torch.tensor([4, 1])), "X") == [4, 1]
    assert labels_of_dataset(Items([(torch.zeros(1), "a", 0), [torch.zeros(1), "b"]]), "X") == ["a", "b"]


@pytest.mark.parametrize("items", [[torch.zeros(3)], [(torch.zeros(3),)], [(torch.zeros(3), 1), torch.zeros(3)]])
def test_items_without_labels(items: list[Any]) -> None:
    with pytest.raises(InvalidInputError, match=r"X: labels are missing; expected y, or a dataset of items"):
        labels_of_dataset(Items(items), "X")


@pytest.mark.parametrize(
    ("labels", "classes", "kind"),
    [
        (["b", "a", "b"], ["a", "b"], "U"),
        ([7, 3, 7], [3, 7], "i"),
        ([0.5, -1.0, 0.5], [-1.0, 0.5], "f"),
        ([True, False, True], [False, True], "b"),
        (np.array([7, 3, 7], dtype=np.int16), [3, 7], "i"),
        (np.array(["b", "a", "b"]), ["a", "b"], "U"),
        (np.array(["b", "a", "b"], dtype=object), ["a", "b"], "U"),
        (torch.tensor([7, 3, 7]), [3, 7], "i"),
        ([torch.tensor(7), torch.tensor(3), torch.tensor(7)], [3, 7], "i"),
        ([(3, 4), (1, 2), (3, 4)], [(1, 2), (3, 4)], "O"),
        ([(3, 4), (1,), (3, 4)], [(1,), (3, 4)], "O"),
        (["a", 10, "a"], [10, "a"], "O"),
        ([(1,), 10, (1,)], [10, (1,)], "O"),
    ],
)
def test_labels_of_any_hashable_type(labels: Any, classes: list[Any], kind: str) -> None:
    codes, found = encode_labels(labels, "y")
    assert found.tolist() == classes
    assert found.dtype.kind == kind
    assert codes.dtype == np.int64
    assert codes.tolist() == [classes.index(label) for label in _plain(labels)]


def _plain(labels: Any) -> list[Any]:
    return (
        labels.tolist()
        if hasattr(labels, "tolist")
        else [getattr(label, "item", lambda x=label: x)() for label in labels]
    )


def test_the_dtype_of_an_array_of_labels_is_kept() -> None:
    assert encode_labels(np.array([7, 3], dtype=np.int16), "y")[1].dtype == np.int16


def test_classes_do_not_depend_on_the_order_of_rows() -> None:
    labels = ["b", 2, (1,), "a", 1, 0.5]
    assert encode_labels(labels, "y")[1].tolist() == encode_labels(labels[::-1], "y")[1].tolist()


@pytest.mark.parametrize(
    "labels",
    [
        ["a", None, "b", None],
        [1.0, np.nan, 2.0, np.nan],
        np.array([1.0, np.nan, 2.0, np.nan]),
        [1, float("nan"), "a", None],
    ],
)
def test_missing_labels_are_counted(labels: Any) -> None:
    with pytest.raises(InvalidInputError, match=r"y: 2 of 4 labels are missing \(None or NaN\), the first in row 1"):
        encode_labels(labels, "y")


def test_the_missing_value_of_pandas_is_missing() -> None:
    pandas = pytest.importorskip("pandas")
    with pytest.raises(InvalidInputError, match="y: 1 of 3 labels are missing"):
        encode_labels(pandas.Series(["a", "b", pandas.NA], dtype="string"), "y")


@pytest.mark.parametrize("labels", [np.eye(2, dtype=int), torch.eye(2, dtype=torch.int), [[1, 0], [0, 1]]])
def test_rows_of_labels_are_no_labels(labels: Any) -> None:
    with pytest.raises(InvalidInputError, match=r"y: expected one label for each row.*got (\[1, 0\] in row 0|2 col)"):
        encode_labels(labels, "y")


def test_one_class_is_not_enough() -> None:
    with pytest.raises(InvalidInputError, match="y: expected labels of at least two classes, got 1 class: 'a'"):
        encode_labels(["a", "a"], "y")
    with pytest.raises(InvalidInputError, match="y: expected labels of at least two classes, got no labels"):
        encode_labels([], "y")


class NoArray:
    """Something that can be a label, and of which NumPy can make no array."""

    def __array__(self, *_: object, **__: object) -> object:
        raise RuntimeError("no array")


def test_objects_that_numpy_fails_on_are_labels_as_others_and_no_inputs() -> None:
    first, second = NoArray(), NoArray()
    codes, classes = encode_labels([first, second, first], "y")
    assert codes[0] == codes[2] != codes[1]
    assert set(classes) == {first, second}
    with pytest.raises(InvalidInputError, match="X: expected"):
        inputs_from(plain_rows([NoArray(), NoArray()], "X"), "X")


def test_damaged_text_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="X: expected text of whole characters"):
        plain_rows([["\ud800", 1.0], ["b", 2.0]], "X")
