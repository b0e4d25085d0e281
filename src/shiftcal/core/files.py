"""Writing files so that a reader, a crash or a power cut never meets half of one.

A file is written beside its place, brought to the disk, moved there, and the move is brought to the disk too. What a
killed process leaves is a temporary file that nobody holds; whoever writes into that folder next removes it.
"""

from __future__ import annotations

import errno
import os
import secrets
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from shiftcal.core.errors import OutputError, ShiftcalError
from shiftcal.core.locks import is_linked, lock_when_free, try_lock

_PREFIX, _MARK = ".shiftcal-", ".partial"
_NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """Give a temporary path beside `path` and move it there, for good, once the block has ended well.

    Raises:
        OutputError: the file can't be written, a full disk included; what was there before is still there.
    """
    with as_output_error(path):
        make_folder(path.parent)
        remove_abandoned_temporaries(path.parent)
        temporary, descriptor = _new_temporary(path)
        try:
            yield temporary
            os.fsync(descriptor)
            temporary.replace(path)
            _bring_folder_to_disk(path.parent)
        finally:
            temporary.unlink(missing_ok=True)
            os.close(descriptor)


@contextmanager
def as_output_error(path: Path) -> Iterator[None]:
    """What the operating system has against writing to `path`, as the one error that says so."""
    try:
        yield
    except (OSError, RuntimeError) as error:
        # torch.save raises a RuntimeError of its own after the error of the stream that it writes to.
        cause = _operating_system_error(error)
        if cause is None or isinstance(cause, ShiftcalError):
            raise
        what_to_do = (
            "Make room and give the same command again" if cause.errno in _NO_SPACE else "Choose another place"
        )
        raise OutputError(f"can't write to {str(path)!r}: {cause.strerror or cause}. {what_to_do}.") from error


def make_folder(folder: Path) -> None:
    """Create a folder and those above it, for good."""
    if folder.is_dir():
        return
    make_folder(folder.parent)
    folder.mkdir(exist_ok=True)
    _bring_folder_to_disk(folder.parent)


def is_temporary(path: Path) -> bool:
    """Whether the name is that of a file that is, or was, being written."""
    return path.name.startswith(_PREFIX) and _MARK in path.name


def remove_abandoned_temporaries(folder: Path) -> None:
    """Remove what processes that were killed left of the files they were writing into the folder."""
    for path in folder.glob(f"{_PREFIX}*{_MARK}*"):
        with suppress(OSError):  # another process was faster, or does not let us: nothing depends on it
            descriptor = os.open(path, os.O_RDWR)
            try:
                if try_lock(descriptor):
                    path.unlink()
            finally:
                os.close(descriptor)


def check_writable_folder(folder: Path) -> None:
    """Raise `OutputError` now if `folder` can't be created or written, instead of after hours of work."""
    with as_output_error(folder):
        existing = next(parent for parent in (folder, *folder.parents) if parent.exists())
        if not existing.is_dir():
            raise NotADirectoryError(f"{str(existing)!r} is a file")
        with tempfile.TemporaryFile(dir=existing):
            pass


def check_not_an_input(out: Path | None, inputs: Iterable[Path | None]) -> None:
    """Raise `OutputError` if what is to be written would take the place of what is read, or of another output.

    Args:
        out: to be written; None: nothing is.
        inputs: files, of outputs those that are written before; None: none.
    """
    if out is None:
        return
    for path in filter(None, inputs):
        if out.resolve() == path.resolve() or (out.exists() and path.exists() and out.samefile(path)):
            raise OutputError(f"{str(out)!r} is an input of this command and would be lost; choose another --out")


def _new_temporary(path: Path) -> tuple[Path, int]:
    """A new file with the permissions that the user's umask gives, held until its descriptor is closed."""
    while True:
        temporary = path.with_name(f"{_PREFIX}{secrets.token_hex(8)}{_MARK}{path.suffix}")
        descriptor = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o666)
        lock_when_free(descriptor)
        if is_linked(descriptor):
            return temporary, descriptor
        os.close(descriptor)  # taken for abandoned in the moment before it was locked


def _bring_folder_to_disk(folder: Path) -> None:
    if os.name == "nt":  # which has no way to do so
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _operating_system_error(error: BaseException | None) -> OSError | None:
    """The first of an error and of those that it came from which is the operating system's."""
    while error is not None and not isinstance(error, OSError):
        error = error.__cause__ or error.__context__
    return error
