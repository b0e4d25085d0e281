"""Features in which the structure of data is looked for: those of the model, or columns of the inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

import numpy as np
from scipy import sparse
from torch import Tensor

from shiftcal.core.errors import InvalidInputError
from shiftcal.data.row_batches import as_frame, num_rows_of
from shiftcal.faces.models.foreign_models import ForeignModel

Features = Literal["auto", "input", "model", "none"] | Callable[[Any], Any]


def features_seen(
    model: ForeignModel, inputs: Any, seen: Any | None, features: Features
) -> tuple[np.ndarray | sparse.csr_matrix | None, str | None]:
    """Features (N, F) in which to look for the structure of the data, and in words what they are; None without any.

    Args:
        model: that was asked.
        inputs: of the batch.
        seen: what the model sees in them.
        features: a function from inputs to features; "input" for the inputs themselves; "model" for what the model
            sees; "none"; "auto": what a pipeline's last step sees, else inputs that are vectors of numbers, else what
            the model sees, else inputs that are numbers at all.

    Raises:
        InvalidInputError: there are no such features.
    """
    if callable(features):
        return _as_table(features(inputs), "features: the function's result", num_rows_of(inputs)), "given features"
    if features == "none":
        return None, None
    columns = numeric_columns(inputs)
    if features == "input":
        if columns is None:
            raise InvalidInputError(
                f"features='input' needs arrays of numbers, got {type(inputs).__name__}; give a function instead"
            )
        return columns, "the inputs themselves"
    if features == "model" and seen is None:
        raise InvalidInputError(
            "features='model': expected an nn.Module with a linear layer, a scikit-learn Pipeline or an "
            "AdaptiveClassifier; give a function from inputs to features"
        )
    # Whole numbers that a network takes are those of tokens.
    is_tokens = seen is not None and isinstance(inputs, Tensor) and not inputs.is_floating_point()
    is_vector = columns is not None and getattr(inputs, "ndim", 2) == 2 and not is_tokens
    if seen is not None and (features == "model" or model.sees_first or not is_vector):
        return _as_table(seen, f"features: {model.sees}", num_rows_of(inputs)), model.sees
    return columns, None if columns is None else "the inputs themselves"


def numeric_columns(inputs: Any) -> np.ndarray | sparse.csr_matrix | None:
    """Inputs as numbers (N, F), NaN where one is missing; of a frame its columns of numbers; None without any."""
    if sparse.issparse(inputs):
        return inputs.tocsr()
    if isinstance(inputs, Mapping):
        if any(np.ndim(column) != 1 for column in inputs.values()):
            return None
        inputs = as_frame(inputs)
    if hasattr(inputs, "select_dtypes"):
        numbers = inputs.select_dtypes(["number", "bool"])
        return numbers.to_numpy(dtype=np.float64, na_value=np.nan) if numbers.shape[1] else None
    if hasattr(inputs, "get_columns"):  # of polars
        columns = [column.cast(float).to_numpy() for column in inputs.get_columns() if column.dtype.is_numeric()]
        return np.stack(columns, axis=1) if columns else None
    array = inputs.detach().cpu().numpy() if isinstance(inputs, Tensor) else inputs
    if isinstance(array, list) and array and isinstance(array[0], (list, tuple, np.ndarray)):
        try:
            array = np.asarray(array)
        except ValueError:  # rows of different lengths
            return None
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "fiub" or array.ndim < 2 or not array.size:
        return None
    return array.reshape(len(array), -1).astype(np.float64)


def _as_table(values: Any, what: str, num_rows: int) -> np.ndarray | sparse.csr_matrix:
    columns = numeric_columns(values)
    if columns is None or columns.shape[0] != num_rows:
        got = type(values).__name__ if columns is None else f"shape {columns.shape}"
        raise InvalidInputError(f"{what}: expected numbers of shape ({num_rows}, ...), one row each, got {got}")
    return columns
