"""The record of a monitor on disk: a line of JSON for each batch, that survives being killed.

The first line says what the batches were held against. A line is appended whole and flushed to the disk before the
next batch begins; half a line at the end, left by a crash, is cut off. Of two lines of one name the later counts.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from shiftcal.core.errors import InvalidInputError, OutputError
from shiftcal.core.files import written_whole
from shiftcal.target.batch_status import BatchStatus

_FORMAT = "shiftcal monitor 1"


@dataclass(frozen=True)
class ReferenceCard:
    """What batches were held against."""

    fingerprint: str
    """Of the rows and of what its columns were taken for."""
    num_rows: int
    accuracy: float
    classes: tuple[str, ...]


class MonitorLog:
    """Batches that were seen, by name.

    Args:
        path: of the file; it is made with the first batch. None: nothing is kept.
        reference: what the batches are held against.

    Raises:
        InvalidInputError: the file is of another reference, or no such file.
    """

    def __init__(self, path: Path | None, reference: ReferenceCard) -> None:
        self.path, self.reference = path, reference
        self._states: dict[str, str] = {}
        self._statuses: dict[str, BatchStatus] = {}
        if path is not None and path.exists():
            self._read(path)

    @property
    def statuses(self) -> list[BatchStatus]:
        """In the order in which the batches were first seen."""
        return list(self._statuses.values())

    def has(self, name: str, state: str) -> bool:
        """Whether this batch was seen in this state (its size); one that has grown was not."""
        return self._states.get(name) == state

    def before(self, name: str) -> list[BatchStatus]:
        """Statuses of the batches before this one: all, if it is new."""
        names = list(self._statuses)
        return self.statuses[: names.index(name) if name in names else len(names)]

    def append(self, status: BatchStatus, state: str) -> None:
        """Keep the status of a batch.

        Raises:
            OutputError: it can't be written.
        """
        self._states[status.time], self._statuses[status.time] = state, status
        if self.path is None:
            return
        if not self.path.exists():
            with written_whole(self.path) as temporary:
                temporary.write_text(_line({"format": _FORMAT, **asdict(self.reference)}), encoding="utf-8")
        try:
            with self.path.open("a", encoding="utf-8") as stream:
                stream.write(_line({"state": state, **status.as_plain()}))
                stream.flush()
                os.fsync(stream.fileno())
        except OSError as error:
            raise OutputError(f"can't write {str(self.path)!r}: {error.strerror or error}") from error

    def _read(self, path: Path) -> None:
        content = path.read_bytes()
        whole = content[: content.rfind(b"\n") + 1]
        try:
            first, *lines = [json.loads(line) for line in whole.decode("utf-8").splitlines()]
            if first["format"] != _FORMAT:
                raise ValueError(first["format"])
            for line in lines:
                state = line.pop("state")
                status = BatchStatus.from_plain(line)
                self._states[status.time], self._statuses[status.time] = state, status
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise InvalidInputError(
                f"{str(path)!r} is no record of a monitor, or it is damaged ({error}); give another file"
            ) from error
        if first["fingerprint"] != self.reference.fingerprint:
            raise InvalidInputError(
                f"{str(path)!r} is of another reference, or of other columns; give the "
                "reference and columns of before, or another file"
            )
        if len(whole) < len(content):
            with written_whole(path) as temporary:
                temporary.write_bytes(whole)


def _line(values: Mapping[str, Any]) -> str:
    return json.dumps(values) + "\n"
