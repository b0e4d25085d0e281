"""The one kind of progress bar: silent for a moment, live on a terminal, a line now and then in a log."""

from __future__ import annotations

import sys
from typing import Any

from tqdm.auto import tqdm

# Work that is done sooner shows no bar.
_DELAY_SECONDS = 2.0
_LOG_INTERVAL_SECONDS = 30.0


def progress_bar(work: Any = None, description: str = "", **settings: Any) -> Any:
    """A bar around an iterable, or to be updated by hand; it goes to standard error and leaves nothing behind."""
    rhythm: dict[str, Any] = {}
    if not sys.stderr.isatty():
        rhythm = {"mininterval": _LOG_INTERVAL_SECONDS, "maxinterval": _LOG_INTERVAL_SECONDS, "ascii": True}
    return tqdm(work, description, delay=_DELAY_SECONDS, leave=False, **rhythm, **settings)
