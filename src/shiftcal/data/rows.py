"""Rows as a user of Python has them, frames, sparse matrices, arrays with gaps or of mixed values, as inputs."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from scipy import sparse

from shiftcal.core.errors import InvalidInputError
from shiftcal.data.arrays import inputs_from
from shiftcal.data.encoders import Encoder
from shiftcal.data.frames import as_frame, is_frame, numbered_names
from shiftcal.data.inputs import ArrayInputs, Inputs
from shiftcal.data.sparse_encoder import SparseEncoder
from shiftcal.data.table_encoder import TableColumns, TableEncoder, TableInputs


def plain_rows(values: Any, name: str) -> Any:
    """Frames and arrays of mixed values as pandas frames; anything else as it is."""
    return as_frame(values, name) if is_frame(values) or _is_mixed(values) else values


def is_numeric_frame(rows: Any) -> bool:
    """Whether a pandas frame holds nothing but numbers."""
    return hasattr(rows, "iloc") and all(getattr(kind, "kind", "O") in "iuf" for kind in rows.dtypes)


def encoder_for(source: Any, target: Any) -> Encoder | None:
    """What makes features of the rows, fitted on those of the source; None if they are features already.

    Numbers without gaps are taken as they are, in frames as in arrays.

    Args:
        source: inputs, or rows as `plain_rows` gives them.
        target: the same or None; an array is asked whether it has gaps.
    """
    if isinstance(source, Inputs):
        return source.encoder
    if sparse.issparse(source):
        return SparseEncoder.fit(source)
    if not hasattr(source, "iloc") and not _has_gaps(source):
        return TableEncoder.as_is(as_frame(source, "X")) if _has_gaps(target) else None
    frame = as_frame(source, "X")
    if is_numeric_frame(frame) and not frame.isna().any(axis=None):
        return TableEncoder.as_is(frame)
    return TableEncoder.fit(frame, TableColumns(), "X")


def encoded_inputs(rows: Any, encoder: Encoder | None, name: str) -> Inputs:
    """Inputs from rows of any of these kinds.

    Raises:
        InvalidInputError: they are not like those of the source.
    """
    if isinstance(rows, Inputs):
        if rows.encoder != encoder:
            raise InvalidInputError(f"{name}: expected rows of the same kind as the source's")
        return rows
    if isinstance(encoder, TableEncoder):
        return TableInputs(_frame_like(rows, encoder, name), encoder, name)
    if encoder is not None:
        return ArrayInputs(torch.from_numpy(encoder.encode(rows, name)), encoder)
    return inputs_from(rows.toarray() if sparse.issparse(rows) else rows, name)


def _frame_like(rows: Any, encoder: TableEncoder, name: str) -> Any:
    """A frame; an array, which has no names, has its columns in the order of the source's."""
    frame = as_frame(rows.toarray() if sparse.issparse(rows) else rows, name)
    if list(frame.columns) != numbered_names(frame.shape[1]):
        return frame
    if frame.shape[1] != len(encoder.names):
        raise InvalidInputError(f"{name}: expected {len(encoder.names)} columns as the source has, got {frame.shape}")
    return frame.set_axis(encoder.names, axis=1)


def _is_mixed(values: Any) -> bool:
    is_array = isinstance(values, np.ndarray) and values.dtype.kind in "OUS"
    if not is_array and not isinstance(values, (list, tuple)):
        return False
    try:
        array = np.asarray(values, dtype=object)
    except Exception:  # rows of different lengths, or objects that raise what they like: the reader of arrays says so
        return False
    if array.ndim != 2:
        return False
    try:
        array.astype(np.float64)
    except (TypeError, ValueError):
        return True
    return False


def _has_gaps(rows: Any) -> bool:
    return isinstance(rows, np.ndarray) and rows.dtype.kind == "f" and bool(np.isnan(rows).any())
