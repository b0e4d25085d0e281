"""Programs in processes of their own, forked from a server that has imported everything once.

Imports would take most of their time. Files that use it are named `*processes.py`: one worker gets all of them, so
that there is one server.
"""

from __future__ import annotations

import multiprocessing
from multiprocessing.context import ForkServerContext
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

_IMPORTED = (
    "lightning_fabric",
    "torch.distributed.fsdp",
    "shiftcal.faces.classifier",
    "shiftcal.faces.cli.predictions",
    "shiftcal.runs.comparison",
    "shiftcal.runs.experiment",
    "shiftcal.runs.reporting.page",
    "tests.problems",
)
_BEGIN = """
import os, sys
import torch
for number, path in ((1, printed), (2, said)):
    os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT), number)
torch.set_num_threads(1)
"""


def server() -> ForkServerContext:
    """The one of this worker."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(_IMPORTED))
    return context


class Programs:
    """Starts programs, keeps what they write, and kills what still runs at the end."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._started: list[BaseProcess] = []

    def start(self, program: str, **given: Any) -> BaseProcess:
        """Run the text of a program, in which the given values have their names."""
        given |= {name: str(self._file(len(self._started), name)) for name in ("printed", "said")}
        process = server().Process(target=exec, args=(_BEGIN + program, given))
        process.start()
        self._started.append(process)
        return process

    def finish(self, *processes: BaseProcess) -> None:
        """Wait until they have ended well."""
        for process in processes:
            process.join(timeout=200)
            assert process.exitcode == 0, self.said(process)

    def printed(self, process: BaseProcess) -> str:
        """What it wrote to stdout."""
        return self._file(self._started.index(process), "printed").read_text()

    def said(self, process: BaseProcess) -> str:
        """What it wrote to stderr."""
        return self._file(self._started.index(process), "said").read_text()

    def kill_all(self) -> None:
        """For the end of a test."""
        for process in self._started:
            process.kill()
            process.join()

    def _file(self, number: int, name: str) -> Path:
        return self._folder / f"process {number} {name}"
