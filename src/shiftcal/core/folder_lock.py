"""A folder for one process alone, from its start to its end."""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import socket
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from shiftcal.core.errors import OutputError
from shiftcal.core.files import as_output_error, make_folder
from shiftcal.core.locks import is_linked, try_lock

LOCK_FILE = ".shiftcal.lock"
# Processes that load data outlive one that was killed by a few seconds, and hold its lock for so long.
_SECONDS_FOR_ORPHANS = 10.0


@contextmanager
def folder_lock(folder: Path, *, wait_seconds: float = 0.0) -> Iterator[None]:
    """Have a folder for this process alone during the block; it is created, and removed if the block leaves it empty.

    The lock file of a process that was killed stays, and tells that what else is in the folder is a run's own. It is
    taken over.

    Args:
        folder: which.
        wait_seconds: how long to wait for another process that has the folder.

    Raises:
        OutputError: another process has the folder, or it can't be written.
    """
    missing = [parent for parent in (folder, *folder.parents) if not parent.exists()]
    path = folder / LOCK_FILE
    is_ours = bool(missing) or path.exists()
    try:
        with as_output_error(folder):
            make_folder(folder)
            descriptor = _locked(path, wait_seconds)
    except OutputError:
        _remove_if_empty(missing)
        raise
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
        os.close(descriptor)
        _remove_if_empty(missing or ([folder] if is_ours else []))


def _locked(path: Path, wait_seconds: float) -> int:
    """The descriptor of the lock file, locked and with our name in it."""
    started = time.monotonic()
    while True:
        descriptor = os.open(path, os.O_CREAT | os.O_RDWR, 0o666)
        try:
            free = _try_lock_or_warn(descriptor, path)
            if free and is_linked(descriptor):
                _write_owner(descriptor)
                return descriptor
            owner = _read_owner(descriptor)
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)
        if free:  # whoever had the lock has just ended and removed the file
            continue
        patience = max(wait_seconds, _SECONDS_FOR_ORPHANS) if _is_dead(owner) else wait_seconds
        if time.monotonic() - started >= patience:
            pid, host, since = (owner.get(name, "?") for name in ("pid", "host", "since"))
            raise OutputError(
                f"{str(path.parent)!r} is in use by process {pid} on {host} since {since}; wait until that has "
                "ended, or choose another folder"
            )
        time.sleep(0.1)


def _try_lock_or_warn(descriptor: int, path: Path) -> bool:
    try:
        return try_lock(descriptor)
    except OSError as error:
        warnings.warn(
            f"{str(path.parent)!r} can't be locked ({error.strerror}): start nothing else in it meanwhile",
            stacklevel=4,
        )
        return True


def _write_owner(descriptor: int) -> None:
    since = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    owner = {"host": socket.gethostname(), "pid": os.getpid(), "since": since}
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, json.dumps(owner).encode(), 0)


def _read_owner(descriptor: int) -> dict[str, Any]:
    """What the owner wrote; nothing if it has not done so yet."""
    try:
        owner = json.loads(os.pread(descriptor, 1000, 0))
    except ValueError:
        return {}
    return owner if isinstance(owner, dict) else {}


def _is_dead(owner: dict[str, Any]) -> bool:
    if owner.get("host") != socket.gethostname() or not isinstance(owner.get("pid"), int):
        return False
    try:
        os.kill(owner["pid"], 0)
    except ProcessLookupError:
        return True
    except OSError:  # it is there and not ours
        return False
    return False


def _remove_if_empty(folders: list[Path]) -> None:
    """Innermost first."""
    for folder in folders:
        with contextlib.suppress(OSError):
            folder.rmdir()
