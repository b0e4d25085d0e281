from __future__ import annotations

import json
import multiprocessing
import os
import signal
import socket
import threading
from pathlib import Path
from typing import Any

import pytest

from shiftcal.core.errors import OutputError
from shiftcal.core.folder_lock import LOCK_FILE, folder_lock


def hold(folder: Path, events: Any) -> None:
    with folder_lock(folder):
        events.put("locked")
        signal.pause()


def test_a_folder_is_made_held_and_left_as_it_was(tmp_path: Path) -> None:
    folder = tmp_path / "runs" / "first"
    with folder_lock(folder):
        owner = json.loads((folder / LOCK_FILE).read_text())
        assert (owner["host"], owner["pid"]) == (socket.gethostname(), os.getpid())
    assert not (tmp_path / "runs").exists()
    folder.mkdir(parents=True)
    with folder_lock(folder):
        pass
    assert list(folder.iterdir()) == []
    with folder_lock(folder):
        (folder / "result.txt").touch()
    assert [path.name for path in folder.iterdir()] == ["result.txt"]


def test_the_second_is_refused_and_told_who_was_first(tmp_path: Path) -> None:
    with folder_lock(tmp_path):
        for _ in range(20):
            with (
                pytest.raises(
                    OutputError, match=f"in use by process {os.getpid()} on {socket.gethostname()} since 20"
                ),
                folder_lock(tmp_path),
            ):
                pass
    with folder_lock(tmp_path):  # free again
        pass


def test_one_that_is_patient_waits_for_the_other(tmp_path: Path) -> None:
    order = []

    def second() -> None:
        with folder_lock(tmp_path, wait_seconds=60):
            order.append("second")

    waiting = threading.Thread(target=second)
    with folder_lock(tmp_path):
        waiting.start()
        waiting.join(0.3)
        order.append("first")
    waiting.join()
    assert order == ["first", "second"]


def test_the_lock_of_a_killed_process_is_taken_over(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    events = context.SimpleQueue()
    holder = context.Process(target=hold, args=(tmp_path / "run", events))
    holder.start()
    assert events.get() == "locked"
    with pytest.raises(OutputError, match=f"process {holder.pid}"), folder_lock(tmp_path / "run"):
        pass
    holder.kill()
    holder.join()
    assert (tmp_path / "run" / LOCK_FILE).exists()
    with folder_lock(tmp_path / "run"):
        assert json.loads((tmp_path / "run" / LOCK_FILE).read_text())["pid"] == os.getpid()
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_can_not_be_locked_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_locks(descriptor: int) -> bool:
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr("shiftcal.core.folder_lock.try_lock", no_locks)
    with pytest.warns(UserWarning, match="can't be locked"), folder_lock(tmp_path / "run"):
        pass
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match="can't write to"), folder_lock(tmp_path / "file"):
        pass
