"""Fingerprints of data: equal for equal content, wherever and whenever it was written, and another for other content.

Arrays and labels count with every value. Of image files the names, the order and the sizes count, and every byte up
to a total of 256 MB; of more than that, every byte of a thousand files that are spread evenly over all. Where
something is kept in place of the data (`content_key`), every byte counts.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import singledispatch
from pathlib import Path
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from shiftcal.core.errors import DataUnavailableError
from shiftcal.core.progress import progress_bar
from shiftcal.data.domains import LabelledDomain, UnlabelledDomain
from shiftcal.data.inputs import ArrayInputs, EncodedInputs, FileInputs, Inputs, SubsetInputs
from shiftcal.data.shards import ShardInputs

_MOST_BYTES_IN_FULL = 256 * 2**20
_SAMPLE = 1_000


def fingerprint(domain: LabelledDomain | UnlabelledDomain) -> str:
    """Of the inputs of a domain and, where it has any, of its labels."""
    digest = hashlib.sha256()
    for part in _content(domain.inputs, whole=False):
        digest.update(part)
    if isinstance(domain, LabelledDomain):
        digest.update(repr(domain.classes).encode())
        digest.update(domain.labels.astype(np.int64).tobytes())
    return digest.hexdigest()


_KEYS: WeakKeyDictionary[Inputs, str] = WeakKeyDictionary()


def content_key(inputs: Inputs) -> str:
    """Of every byte of the inputs; of the same object it is found once."""
    if inputs not in _KEYS:
        digest = hashlib.sha256()
        for part in _content(inputs, whole=True):
            digest.update(part)
        _KEYS[inputs] = digest.hexdigest()
    return _KEYS[inputs]


@singledispatch
def _content(inputs: Inputs, *, whole: bool) -> Iterator[bytes]:
    """Of a dataset that only its owner knows, (some) rows as they are fetched."""
    rows = np.arange(len(inputs), dtype=np.int64) if whole else _spread(len(inputs))
    yield repr((len(inputs), inputs.shape)).encode()
    for start in range(0, len(rows), 64):
        yield inputs.fetch(rows[start : start + 64]).numpy().tobytes()


@_content.register
def _(inputs: ArrayInputs, *, whole: bool) -> Iterator[bytes]:
    del whole  # arrays always are
    yield repr((tuple(inputs.values.shape), inputs.values.dtype)).encode()
    for start in range(0, len(inputs), 4096):
        yield inputs.values[start : start + 4096].numpy().tobytes()


@_content.register
def _(inputs: FileInputs, *, whole: bool) -> Iterator[bytes]:
    sizes = [_size(path) for path in inputs.paths]
    yield repr((inputs.shape, [inputs.identify(row) for row in range(len(inputs))], sizes)).encode()
    for row in progress_bar(_rows_in_full(len(inputs), sum(sizes), whole), "reading pictures"):
        yield inputs.paths[row].read_bytes()


@_content.register
def _(inputs: EncodedInputs, *, whole: bool) -> Iterator[bytes]:
    yield repr((inputs.shape, inputs.names)).encode()
    yield inputs.offsets.tobytes()
    for row in _rows_in_full(len(inputs), len(inputs.encoded), whole):
        yield inputs.encoded[inputs.offsets[row] : inputs.offsets[row + 1]].tobytes()


@_content.register
def _(inputs: ShardInputs, *, whole: bool) -> Iterator[bytes]:
    yield repr((inputs.shape, list(inputs.names))).encode()
    for row in progress_bar(_rows_in_full(len(inputs), inputs.num_bytes, whole), "reading pictures"):
        yield inputs.read(int(row))


@_content.register
def _(inputs: SubsetInputs, *, whole: bool) -> Iterator[bytes]:
    yield from _content(inputs.base, whole=whole)
    yield inputs.rows.tobytes()


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError as error:
        raise DataUnavailableError(f"can't read {str(path)!r}: {error.strerror or error}") from error


def _rows_in_full(count: int, num_bytes: int, whole: bool) -> NDArray[np.int64]:
    return np.arange(count) if whole or num_bytes <= _MOST_BYTES_IN_FULL else _spread(count)


def _spread(count: int) -> NDArray[np.int64]:
    """At most so many row numbers as a sample has, evenly over all."""
    return np.unique(np.linspace(0, count - 1, min(count, _SAMPLE)).astype(np.int64))
