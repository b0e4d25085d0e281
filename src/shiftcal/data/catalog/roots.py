"""Where data sets are looked for: an argument, else the environment, else a cache folder of the user."""

from __future__ import annotations

import os
from pathlib import Path

DATA_VARIABLE = "SHIFTCAL_DATA"
"""Environment variable with one or more data folders, separated as in PATH."""

DOWNLOAD_VARIABLE = "SHIFTCAL_DOWNLOAD"
"""Environment variable that allows downloads when it is 1, true or yes."""


def data_roots(data_dir: str | Path | None = None) -> tuple[Path, ...]:
    """Folders in which data sets are looked for, the first one also being where downloads go."""
    if data_dir is not None:
        return (Path(data_dir).expanduser(),)
    listed = [Path(part).expanduser() for part in os.environ.get(DATA_VARIABLE, "").split(os.pathsep) if part]
    return tuple(listed) or (user_cache(),)


def download_allowed(download: bool) -> bool:
    """Whether the caller or the environment allows to fetch data from the network."""
    return download or os.environ.get(DOWNLOAD_VARIABLE, "").strip().lower() in ("1", "true", "yes")


def user_cache() -> Path:
    """The folder of shiftcal in the user's cache folder."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "shiftcal"
