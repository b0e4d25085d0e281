"""Arrays of `.npy` and `.npz` files, read without trust: whatever they declare is checked before it is allocated.

Those that shiftcal writes itself have a checksum too, and are trusted no more.
Pickled objects are never loaded. A file that is cut off, altered, of another kind, or that would unfold to more than
its size gives reason for, ends as one `InvalidInputError`.
"""

from __future__ import annotations

import json
import math
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from shiftcal.core.errors import DataUnavailableError, InvalidInputError, ShiftcalError, UnknownNameError
from shiftcal.core.limits import ARRAY_BYTES
from shiftcal.core.seals import opened_sealed, written_sealed

Array = NDArray[Any]

# A compressed array may always have that many times the bytes that it takes in the file.
_MOST_UNFOLDED = 100
_SUFFIX = ".npy"
_READ_AT_ONCE = 2**20
_MOST_DESCRIBED = 10


class ArrayHeader(NamedTuple):
    """What a file says of an array."""

    shape: tuple[int, ...]
    is_fortran: bool
    dtype: np.dtype[Any]


class ArrayFile:
    """An open `.npz` file whose errors name the file and what is in it."""

    def __init__(self, path: Path, archive: zipfile.ZipFile) -> None:
        self.path = path
        self._archive = archive
        members = {member.filename: member for member in archive.infolist()}
        self._members = {
            name.removesuffix(_SUFFIX): member for name, member in members.items() if name.endswith(_SUFFIX)
        }
        self.names = tuple(self._members)

    def __contains__(self, name: str) -> bool:
        return name in self._members

    def __getitem__(self, name: str) -> Array:
        with self._opened(name) as (stream, what):
            member = self._members[name]
            stored = min(member.compress_size, self.path.stat().st_size)
            return _read_array(stream, member.file_size, what, unfolded_from=stored)

    def read(self, name: str, kinds: str, *shape: int | None) -> Array:
        """The array of that name, which has to be of one of the kinds and of the shape.

        Args:
            name: of the array.
            kinds: letters of `numpy.dtype.kind`, such as "f" or "iu".
            shape: length of each dimension; None: any.

        Raises:
            InvalidInputError: it is not.
        """
        array = self[name]
        fits = len(array.shape) == len(shape) and all(
            wanted in (None, got) for wanted, got in zip(shape, array.shape, strict=True)
        )
        if array.dtype.kind not in kinds or not fits:
            lengths = ", ".join("any" if length is None else str(length) for length in shape)
            raise InvalidInputError(
                f"expected {name!r} of kind {' or '.join(kinds)} and shape ({lengths}), "
                f"got {array.dtype} {array.shape}"
            )
        return array

    def read_json(self, name: str) -> Any:
        """The plain values that the one text of that name stands for.

        Raises:
            InvalidInputError: it is no JSON.
        """
        try:
            return json.loads(str(self.read(name, "U")))
        except (ValueError, RecursionError) as error:
            raise InvalidInputError(f"expected {name!r} as JSON: {error}") from error

    def describe(self) -> str:
        """Name, type and shape of each array, of the first ones where there are many."""
        described = [self._describe(name) for name in self.names[:_MOST_DESCRIBED]]
        more = len(self.names) - len(described)
        return ", ".join([*described, *([f"{more:,} more"] if more else [])]) or "no arrays"

    def _describe(self, name: str) -> str:
        try:
            with self._opened(name) as (stream, what):
                header = _read_header(stream, what)
        except InvalidInputError:
            return f"{name} (unreadable or Python objects)"
        return f"{name} {header.dtype} {header.shape}"

    @contextmanager
    def _opened(self, name: str) -> Iterator[tuple[IO[bytes], str]]:
        if name not in self:
            raise UnknownNameError(f"array of {str(self.path)!r}", name, self.names)
        what = f"the array {name!r} of {str(self.path)!r}"
        with _damage_named(what), self._archive.open(self._members[name]) as stream:
            yield stream, what


@contextmanager
def open_array_file(path: Path) -> Iterator[ArrayFile]:
    """Open a `.npz` file.

    Raises:
        InvalidInputError: it is not one, or it is damaged.
    """
    with _damage_named(f"{str(path)!r} as a .npz file"):
        stream = path.open("rb")
    with stream:
        with _damage_named(f"{str(path)!r} as a .npz file"):
            if stream.read(len(np.lib.format.MAGIC_PREFIX)) == np.lib.format.MAGIC_PREFIX:
                raise InvalidInputError(f"{str(path)!r} is not a .npz file but a single array; name it .npy")
            file = ArrayFile(path, zipfile.ZipFile(stream))
        yield file


@contextmanager
def open_own_file(path: Path, what: str) -> Iterator[ArrayFile]:
    """Open a `.npz` file that shiftcal wrote and sealed; what is found wrong with it in the block names it too.

    Args:
        path: of the file.
        what: it holds, for messages, such as "predictions".

    Raises:
        DataUnavailableError: there is no such file.
        InvalidInputError: it is damaged, or something else.
    """
    if not path.exists():
        raise DataUnavailableError(f"no {what} at {str(path)!r}; expected a file that shiftcal wrote")
    try:
        with opened_sealed(path) as stream:
            yield ArrayFile(path, zipfile.ZipFile(stream))
    except Exception as error:  # as above, and of our own looks at values that none of us wrote
        raise InvalidInputError(f"{str(path)!r} is not a {what} file of shiftcal: {_in_words(error)}") from error


def write_own_file(path: Path, arrays: Mapping[str, Array]) -> None:
    """Write a sealed `.npz` file that `open_own_file` opens."""
    with written_sealed(path) as stream, zipfile.ZipFile(stream, "w") as archive:
        for name, array in arrays.items():
            member = zipfile.ZipInfo(f"{name}{_SUFFIX}")
            # What is large and all alike would unfold to so much more than it takes that readers refuse it.
            is_small = array.nbytes <= ARRAY_BYTES.default
            member.compress_type = zipfile.ZIP_DEFLATED if is_small else zipfile.ZIP_STORED
            with archive.open(member, "w", force_zip64=True) as output:
                np.lib.format.write_array(output, array, allow_pickle=False)


def read_array_file(path: Path) -> Array:
    """The one array of a `.npy` file.

    Raises:
        InvalidInputError: it is not one, or it is damaged.
    """
    what = f"{str(path)!r} as a .npy file"
    with _damage_named(what), path.open("rb") as stream:
        size = path.stat().st_size
        return _read_array(stream, size, what, unfolded_from=size)


@contextmanager
def _damage_named(what: str) -> Iterator[None]:
    try:
        yield
    except ShiftcalError:
        raise
    except Exception as error:  # NumPy, zipfile and zlib raise a dozen kinds for files that are not what they say
        raise InvalidInputError(
            f"can't read {what}: {_in_words(error)}. "
            "Expected numbers or text as NumPy saves them; pickled objects are never loaded."
        ) from error


def _in_words(error: Exception) -> str:
    return f"it lacks {error}" if isinstance(error, KeyError) else str(error)[:200] or type(error).__name__


def _read_header(stream: IO[bytes], what: str) -> ArrayHeader:
    version = np.lib.format.read_magic(stream)
    if version not in _HEADER_READERS:
        raise InvalidInputError(f"can't read {what}: its format has version {version}, expected 1.0 or 2.0")
    header = ArrayHeader(*_HEADER_READERS[version](stream))
    if header.dtype.hasobject:
        raise InvalidInputError(
            f"can't read {what}: it holds Python objects. Expected numbers or text; pickled objects are never loaded."
        )
    if header.dtype.itemsize == 0 or any(side < 0 for side in header.shape):
        raise InvalidInputError(f"can't read {what}: it declares {header.dtype} {header.shape}")
    return header


_HEADER_READERS: dict[tuple[int, int], Any] = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}


def _read_array(stream: IO[bytes], size: int, what: str, *, unfolded_from: int) -> Array:
    """The array of a stream of `size` bytes that take `unfolded_from` bytes on disk."""
    header = _read_header(stream, what)
    num_bytes = math.prod(header.shape) * header.dtype.itemsize
    if num_bytes != size - stream.tell():
        raise InvalidInputError(
            f"can't read {what}: {header.dtype} {header.shape} takes {num_bytes:,} bytes, and it has "
            f"{size - stream.tell():,}. The file is cut off or altered."
        )
    # A shape such as (10**12, 0) takes no bytes, and yet as many steps to go through.
    declared = math.prod(max(side, 1) for side in header.shape) * header.dtype.itemsize
    ARRAY_BYTES.check(declared, what, at_least=_MOST_UNFOLDED * unfolded_from)
    content = bytearray(num_bytes)
    position = 0
    # In parts, since each is a copy; the last one is where the checksum of a compressed array is compared.
    while part := stream.read(_READ_AT_ONCE):
        content[position : position + len(part)] = part
        position += len(part)
    if not position == len(content) == num_bytes:
        raise InvalidInputError(f"can't read {what}: expected {num_bytes:,} bytes, got {position:,}")
    flat = np.frombuffer(content, dtype=header.dtype)
    return flat.reshape(header.shape[::-1]).T if header.is_fortran else flat.reshape(header.shape)
