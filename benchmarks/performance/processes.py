"""Two gloo processes with a core each against one process, by `benchmarks.cluster.processes`."""

from __future__ import annotations

import tempfile
from pathlib import Path

from benchmarks.cluster.processes import FEW_EPOCHS, MANY_EPOCHS, STEPS, fit
from benchmarks.performance.measuring import Measurement

_UNITS = {"by the clock": "seconds", "CPU time of the busier": "cpu_seconds"}


def measure(quick: bool) -> list[Measurement]:
    """The lines of this topic: what further steps take, without imports, data and what follows training."""
    epochs = (FEW_EPOCHS, FEW_EPOCHS + 1 if quick else MANY_EPOCHS)
    with tempfile.TemporaryDirectory() as folder:
        one, two = (
            [fit(number, "drl", each, Path(folder) / f"{number}-{each}") for each in epochs] for number in (1, 2)
        )
    num_steps = (epochs[1] - epochs[0]) * STEPS
    return [
        Measurement(
            f"{num_steps} steps of drl in two processes, {name}",
            "256 + 256 pictures of 32 x 32",
            two[1][unit] - two[0][unit],
            "one process",
            one[1][unit] - one[0][unit],
            "at most 0.625",
        )
        for name, unit in _UNITS.items()
    ]
