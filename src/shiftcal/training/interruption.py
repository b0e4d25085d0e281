"""Ctrl-C and termination as a request that training grants after the current step."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interruption:
    """Within the block the first signal only sets `requested`; a second one acts as it would without this."""

    def __init__(self, *, enabled: bool) -> None:
        # Python allows signal handlers in the main thread only.
        self.enabled = enabled and threading.current_thread() is threading.main_thread()
        self.requested = False
        self._previous: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Interruption:
        if self.enabled:
            self._previous = {number: signal.signal(number, self._request) for number in _SIGNALS}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._give_back()

    def _request(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        self.requested = True
        self._give_back()

    def _give_back(self) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        self._previous = {}
