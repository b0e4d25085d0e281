"""Checksums of zip archives, such as checkpoints and `.npz` files: a single changed bit is found before it is read.

The SHA-256 of all that stands before it is the comment of the archive, its last bytes. Any program that reads zip
files reads a sealed one.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from shiftcal.core.errors import InvalidInputError
from shiftcal.core.files import written_whole

_NAME = b"shiftcal sha256 "
_DIGEST_LENGTH = 64
_COMMENT_LENGTH = len(_NAME) + _DIGEST_LENGTH
# The record that ends an archive without a comment: its signature first, the length of the comment last.
_END_SIGNATURE, _END_LENGTH = b"PK\x05\x06", 22
_NO_COMMENT = b"\x00\x00"


@contextmanager
def written_sealed(path: Path) -> Iterator[IO[bytes]]:
    """Give a stream for an archive that appears at `path`, whole and sealed, once the block has ended well."""
    with written_whole(path) as temporary:
        with temporary.open("wb") as stream:
            yield stream
        with temporary.open("rb+") as stream:
            _seal(stream)


@contextmanager
def opened_sealed(path: Path) -> Iterator[IO[bytes]]:
    """Give a stream of an archive that is as it was sealed.

    Raises:
        InvalidInputError: it is not; whatever reads it would be given something else than was written.
    """
    with path.open("rb") as stream:
        _check_seal(stream)
        stream.seek(0)
        yield stream


def _seal(stream: IO[bytes]) -> None:
    stream.seek(-_END_LENGTH, os.SEEK_END)
    end = stream.read()
    assert end.startswith(_END_SIGNATURE)
    assert end.endswith(_NO_COMMENT)
    stream.seek(-len(_NO_COMMENT), os.SEEK_END)
    stream.write(_COMMENT_LENGTH.to_bytes(2, "little") + _NAME)
    stream.seek(0)
    digest = _digest(stream, os.fstat(stream.fileno()).st_size)
    stream.seek(0, os.SEEK_END)
    stream.write(digest)


def _check_seal(stream: IO[bytes]) -> None:
    size = os.fstat(stream.fileno()).st_size
    start = size - _COMMENT_LENGTH
    stream.seek(max(start, 0))
    comment = stream.read()
    if not comment.startswith(_NAME):
        raise InvalidInputError("it has no checksum: it is damaged, cut off, or of an older version")
    stream.seek(0)
    if _digest(stream, size - _DIGEST_LENGTH) != comment[len(_NAME) :]:
        raise InvalidInputError("it is damaged: its checksum is another")


def _digest(stream: IO[bytes], length: int) -> bytes:
    digest = hashlib.sha256()
    while length > 0:
        part = stream.read(min(length, 2**20))
        if not part:
            break
        digest.update(part)
        length -= len(part)
    return digest.hexdigest().encode()
