"""Locks on open files, which the operating system takes back when their process ends, in whatever way.

On Windows, and on file systems that have no locks, processes are not kept apart.
"""

from __future__ import annotations

import contextlib
import os
import sys

if sys.platform != "win32":
    import fcntl


def try_lock(descriptor: int) -> bool:
    """Lock an open file until it is closed, unless another process, or another opening of it, has it locked.

    Raises:
        OSError: the file system has no locks.
    """
    if sys.platform == "win32":
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def lock_when_free(descriptor: int) -> None:
    """Lock an open file, where the file system has locks, as soon as nobody else has it locked."""
    if sys.platform != "win32":
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)


def is_linked(descriptor: int) -> bool:
    """Whether an open file still has a name."""
    return os.fstat(descriptor).st_nlink > 0
