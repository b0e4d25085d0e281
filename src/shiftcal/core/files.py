"""Writing files so that a reader, or a crash, never meets half of one."""

from __future__ import annotations

import os
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from shiftcal.core.errors import OutputError

# What NumPy and zipfile raise for `.npz` files that are empty, cut off, altered or of another kind.
DAMAGED_ARCHIVE = (
    KeyError,
    ValueError,
    TypeError,
    EOFError,
    OSError,
    NotImplementedError,
    zipfile.BadZipFile,
    zlib.error,
)


@contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """Give a temporary path beside `path` and move it there once the block has ended well."""
    temporary: Path | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=path.suffix, dir=path.parent)
        os.close(descriptor)
        temporary = Path(name)
        yield temporary
        temporary.chmod(0o644)
        temporary.replace(path)
    except OSError as error:
        raise OutputError(f"can't write {str(path)!r}: {error.strerror or error}. Choose another place.") from error
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)


def check_writable_folder(folder: Path) -> None:
    """Raise `OutputError` now if `folder` can't be created or written, instead of after hours of work."""
    try:
        existing = next(parent for parent in (folder, *folder.parents) if parent.exists())
        if not existing.is_dir():
            raise NotADirectoryError(f"{str(existing)!r} is a file")
        with tempfile.TemporaryFile(dir=existing):
            pass
    except OSError as error:
        raise OutputError(
            f"can't write to {str(folder)!r}: {error.strerror or error}. Choose another place."
        ) from error
