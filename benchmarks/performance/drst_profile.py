"""Where the time of `drst` goes on pictures: seconds of its parts in three epochs, by Python's profiler.

python -m benchmarks drst_profile --out FILE.csv

The batches and sizes are those of the benchmark of steps; parts lie within each other, as told by their place.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
from collections.abc import Iterator

import torch
from benchmarks.frame import Benchmark, Job
from benchmarks.performance.training import new_domains

from shiftcal.data.batches import ShiftProblem
from shiftcal.training.fit import fit_model
from shiftcal.training.recipe import Recipe

NUM_ROWS, FIRST, LAST = 6_400, 2, 5
# Function and file, by what it is in words.
PARTS = {
    "epochs, whole": ("_run_epoch", "trainer.py"),
    "steps": ("_step", "trainer.py"),
    "backward passes": ("backward", "fabric.py"),
    "strong views": ("in_strong_views", "rounds.py"),
    "forward pass of the reference": ("with_reference", "source_reference.py"),
    "label model": ("fit_labels", "self_training_network.py"),
    "labels": ("choose_pseudo_labels", "drst.py"),
}


def measure() -> Iterator[dict[str, float | str]]:
    """A row for each part."""
    torch.set_num_threads(1)
    source, target = new_domains("images", NUM_ROWS)
    profile = cProfile.Profile()

    def after_epoch(history: list[dict[str, float]]) -> None:
        if len(history) == FIRST:
            profile.enable()
        if len(history) == LAST:
            profile.disable()

    recipe = Recipe.from_names("drst", training={"epochs": LAST, "validation_fraction": 0.1, "batch_size": 64})
    fit_model(ShiftProblem(source, target), recipe, after_epoch=after_epoch)
    found = pstats.Stats(profile).stats  # type: ignore[attr-defined]
    for part, (function, file) in PARTS.items():
        own = [values[3] for (path, _, name), values in found.items() if name == function and path.endswith(file)]
        yield {"part": part, "seconds": max(own, default=0.0)}


def jobs(_: argparse.Namespace) -> Iterator[Job]:
    """The one."""
    yield Job({"epochs": f"{FIRST + 1} to {LAST}"}, measure)


BENCHMARKS = {"drst_profile": Benchmark(jobs)}
