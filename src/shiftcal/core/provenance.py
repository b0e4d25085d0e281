"""Which code is running: what results are recorded with."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path

import shiftcal


@cache
def code_commit() -> str | None:
    """Of the checkout that the package lies in, `-dirty` where files differ from it; None for an installed one."""
    folder = Path(shiftcal.__file__).parent
    command = ["git", "-C", str(folder), "describe", "--always", "--dirty", "--abbrev=12"]
    try:
        tracked = ["git", "-C", str(folder), "ls-files", "--error-unmatch", "__init__.py"]
        subprocess.run(tracked, capture_output=True, check=True)
        return subprocess.run(command, capture_output=True, check=True, text=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None
