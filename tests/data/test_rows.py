"""Whatever rows come in, the same features come out."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy import sparse

from shiftcal.core.errors import InvalidInputError
from shiftcal.data.frames import as_frame, as_label_list
from shiftcal.data.inputs import ArrayInputs
from shiftcal.data.rows import encoded_inputs, encoder_for, plain_rows

GENERATOR = np.random.default_rng(0)
FRAME = pd.DataFrame(
    {
        "size": np.where(GENERATOR.random(60) < 0.2, np.nan, GENERATOR.normal(size=60)),
        "kind": pd.Categorical(GENERATOR.choice(["a", "b"], 60)),
        "open": GENERATOR.random(60) < 0.5,
        "day": pd.date_range("2020-01-01", periods=60, freq="31h"),
        "count": GENERATOR.integers(0, 9, 60),
    }
)
NUMBERS = FRAME[["count", "size"]].fillna(0.5)


def features(source: Any, rows: Any) -> Any:
    encoder = encoder_for(plain_rows(source, "X"), None)
    inputs = encoded_inputs(plain_rows(rows, "X"), encoder, "X")
    assert isinstance(inputs, ArrayInputs)
    return inputs.values.numpy()


def of_polars(frame: Any) -> Any:
    return pytest.importorskip("polars").from_pandas(frame)


def of_duckdb(frame: Any) -> Any:
    return pytest.importorskip("duckdb").from_df(frame)


MAKES: dict[str, Callable[[Any], Any]] = {
    "arrow": pa.Table.from_pandas,
    "arrow batch": pa.RecordBatch.from_pandas,
    "nullable": lambda frame: frame.convert_dtypes(),
    "arrow-backed": lambda frame: frame.convert_dtypes(dtype_backend="pyarrow"),
    "another index": lambda frame: frame.set_axis(range(7, 67)),
    "objects": lambda frame: frame.to_numpy(dtype=object),
    "lists": lambda frame: frame.to_numpy(dtype=object).tolist(),
    "polars": of_polars,
    "duckdb": of_duckdb,
}


@pytest.mark.parametrize("make", MAKES)
def test_frames_of_every_make(make: str) -> None:
    made = MAKES[make](FRAME)
    np.testing.assert_allclose(features(made, made), features(FRAME, FRAME), atol=1e-6)
    if make not in ("objects", "lists"):
        numbers = MAKES[make](NUMBERS)
        np.testing.assert_allclose(features(numbers, numbers), NUMBERS, atol=1e-6)


def test_numbers_are_taken_as_they_are_and_found_by_name() -> None:
    np.testing.assert_array_equal(features(NUMBERS, NUMBERS[["size", "count"]]), NUMBERS.to_numpy(np.float32))
    later = NUMBERS.assign(count=np.nan)
    assert (features(NUMBERS, later)[:, 0] == NUMBERS["count"].median()).all()


def test_arrays_have_the_order_of_the_source() -> None:
    array = FRAME.to_numpy(dtype=object)
    np.testing.assert_array_equal(features(FRAME, array), features(FRAME, FRAME))
    with pytest.raises(InvalidInputError, match="expected 5 columns as the source has"):
        features(FRAME, array[:, :4])


def test_sparse_and_dense_rows() -> None:
    rows = NUMBERS.to_numpy()
    for source in (rows, sparse.csr_matrix(rows), sparse.csc_array(rows)):
        for later in (rows, sparse.csr_matrix(rows)):
            np.testing.assert_allclose(features(source, later), rows, atol=1e-6)


def test_labels_of_every_make() -> None:
    y = pd.Series(["a", "b", "a"], name="y")
    makes = [
        y,
        y.to_frame(),
        y.astype("string"),
        pa.chunked_array([["a", "b"], ["a"]]),
        pa.table({"y": y}),
        ["a", "b", "a"],
    ]
    for made in makes:
        assert list(as_label_list(made, "y")) == ["a", "b", "a"]
    with pytest.raises(InvalidInputError, match=r"y: expected one column of labels, got"):
        as_label_list(NUMBERS, "y")


def test_frames_that_are_none() -> None:
    with pytest.raises(InvalidInputError, match="at least one row"):
        as_frame(FRAME.head(0), "X")
    with pytest.raises(InvalidInputError, match="'a' more than once"):
        as_frame(pd.DataFrame([[1, 2]], columns=["a", "a"]), "X")
