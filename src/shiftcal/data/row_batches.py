"""Rows of data of any kind, batch by batch, as a model takes them.

Rows that can be taken by their numbers: arrays, memory maps, tensors, sparse matrices, frames and series of pandas
and polars, lists, mappings of columns, Hugging Face datasets, torch datasets. Streams, which are gone through once:
torch loaders and iterable datasets, generators of batches, Arrow tables and readers, DuckDB relations. Anything else
that has a length is one batch. A batch of a loader, a generator or a dataset may bring its labels: (inputs, labels),
or a mapping with a column `label`, `labels` or `y`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, IterableDataset, default_collate

from shiftcal.core.errors import InvalidInputError

RowNumbers = NDArray[np.int64]
_LABEL_COLUMNS = ("label", "labels", "y")


class RowBatch(NamedTuple):
    """Some rows."""

    inputs: Any
    """As the model takes them."""
    labels: Any | None
    """Where the data bring them."""
    rows: RowNumbers
    """Their numbers in the data, from 0."""


def known_num_rows(values: Any) -> int | None:
    """How many rows there are; None for a stream."""
    return None if _is_stream(values) else num_rows_of(values)


def num_rows_of(values: Any) -> int:
    """Rows of a batch of any kind.

    Raises:
        InvalidInputError: it has no length.
    """
    if isinstance(values, Mapping):
        return num_rows_of(next(iter(values.values()))) if values else 0
    try:
        return int(values.shape[0]) if hasattr(values, "shape") else len(values)
    except (TypeError, IndexError) as error:
        raise InvalidInputError(
            f"expected rows of data (an array, frame, list, data set, loader or generator of batches), got "
            f"{type(values).__name__}: {error}"
        ) from error


def row_batches(values: Any, rows_at_once: int, chosen: RowNumbers | None = None) -> Iterator[RowBatch]:
    """The rows, in batches.

    Args:
        values: see the module.
        rows_at_once: of a batch; loaders and generators have batches of their own.
        chosen: numbers of the rows that are wanted, of data that are no stream; None: all.
    """
    if _is_stream(values):
        first = 0
        for item in _streamed(values, rows_at_once):
            inputs, labels = _split(item)
            num_rows = num_rows_of(inputs)
            yield RowBatch(inputs, labels, np.arange(first, first + num_rows))
            first += num_rows
        return
    taker = _taker(values)
    rows = np.arange(num_rows_of(values)) if chosen is None else chosen
    if taker is None:
        yield RowBatch(values, None, np.arange(num_rows_of(values)))
        return
    for start in range(0, len(rows), rows_at_once):
        own = rows[start : start + rows_at_once]
        item = taker(own)
        inputs, labels = _split(item) if isinstance(item, Mapping) or isinstance(values, Dataset) else (item, None)
        yield RowBatch(inputs, labels, own)


def as_frame(inputs: Any) -> Any:
    """Several named columns, as data sets give them, as the table that classifiers take."""
    if not isinstance(inputs, Mapping):
        return inputs
    import pandas

    return pandas.DataFrame({name: np.asarray(column) for name, column in inputs.items()})


def _is_stream(values: Any) -> bool:
    if isinstance(values, (DataLoader, IterableDataset, Iterator)):
        return True
    return hasattr(values, "__arrow_c_stream__") and not hasattr(values, "iloc") and not _is_polars(values)


def _streamed(values: Any, rows_at_once: int) -> Iterable[Any]:
    if isinstance(values, IterableDataset):
        return DataLoader(values, batch_size=rows_at_once)
    if isinstance(values, (DataLoader, Iterator)):
        return values
    import pyarrow

    reader = pyarrow.RecordBatchReader.from_stream(values)
    return (batch.to_pandas() for batch in reader if len(batch))


def _taker(values: Any) -> Any:
    """A function from row numbers to these rows; None where rows can't be taken one by one."""
    if isinstance(values, Dataset):
        return lambda rows: default_collate([values[int(row)] for row in rows])
    if isinstance(values, Mapping):
        takers = {name: _taker(column) for name, column in values.items()}
        return lambda rows: {name: taker(rows) for name, taker in takers.items()}
    if hasattr(values, "column_names") and hasattr(values, "with_format"):  # of Hugging Face
        return lambda rows: values[rows.tolist()]
    if hasattr(values, "iloc"):
        return lambda rows: values.iloc[_compact(rows)]
    if sparse.issparse(values):
        by_row = values.tocsr()
        return lambda rows: by_row[_compact(rows)]
    if isinstance(values, (np.ndarray, Tensor)) or _is_polars(values):
        return lambda rows: values[_compact(rows)]
    if isinstance(values, Sequence) and not isinstance(values, (str, bytes)):
        return lambda rows: [values[int(row)] for row in rows]
    return None


def _compact(rows: RowNumbers) -> RowNumbers | slice:
    """A slice where rows follow each other: no copy is made of them."""
    return slice(int(rows[0]), int(rows[-1]) + 1) if rows[-1] - rows[0] == len(rows) - 1 else rows


def _is_polars(values: Any) -> bool:
    return type(values).__module__.partition(".")[0] == "polars"


def _split(item: Any) -> tuple[Any, Any | None]:
    """Inputs and labels of what a loader, a generator or a data set gives."""
    if isinstance(item, Mapping):
        labels = next((item[name] for name in _LABEL_COLUMNS if name in item), None)
        columns = {name: column for name, column in item.items() if name not in _LABEL_COLUMNS}
        if not columns:
            raise InvalidInputError(f"expected columns with inputs, got labels alone: {sorted(map(str, item))}")
        return (next(iter(columns.values())) if len(columns) == 1 else columns), labels
    # A list of texts or of rows is a batch; a loader gives lists of tensors for (inputs, labels).
    is_parts = isinstance(item, tuple) or (
        isinstance(item, list) and any(isinstance(part, (Tensor, np.ndarray, Mapping)) for part in item)
    )
    if not is_parts or not len(item):
        return item, None
    inputs, _ = _split(item[0]) if isinstance(item[0], Mapping) else (item[0], None)
    return inputs, item[1] if len(item) > 1 else None
