"""Frozen backbones: pictures per second of extraction, and the time of the head that is trained on the features.

    SHIFTCAL_DATA=... python -m benchmarks frozen_backbones --out benchmarks/backbones/frozen.csv

Two tasks through EfficientNet-Lite0 with its ImageNet weights: MNIST to SVHN at 32 pixels, the largest set of
pictures in the benchmark data, and Office-31 amazon to webcam, JPEGs at 128 pixels. Features are extracted into a new
cache, and heads trained on them by `adapted` (DRST with target scaling) and by `calibrated`. CPU seconds stand beside
those on the clock: other work on the machine lengthens them less.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
from benchmarks.frame import Benchmark, Job

from shiftcal.data.batches import ShiftProblem
from shiftcal.data.domains import LabelledDomain
from shiftcal.data.specs import load_pair
from shiftcal.metrics import accuracy, expected_calibration_error
from shiftcal.training.fallback import fit_with_fallback
from shiftcal.training.frozen_backbone import FrozenBackbone
from shiftcal.training.recipe import Recipe

BACKBONE = "efficientnet-lite0:pretrained"
# Source, target, size of pictures, and epochs: as many as make up about a thousand steps.
TASKS = {"digits": ("mnist", "svhn", 32, 1), "office": ("office-31/amazon", "office-31/webcam", 128, 25)}


def measure(task: str) -> list[dict[str, Any]]:
    """A row for each thing that takes time."""
    source_spec, target_spec, size, epochs = TASKS[task]
    source, target = load_pair(source_spec, target_spec, image_size=size)
    assert isinstance(target, LabelledDomain)
    problem = ShiftProblem(source, target.without_labels())
    num_pictures = len(source) + len(target)
    rows: list[dict[str, Any]] = []

    def note(what: str, started: tuple[float, float], **facts: Any) -> None:
        wall, cpu = time.perf_counter() - started[0], time.process_time() - started[1]
        rates = {"pictures": num_pictures, "per_cpu_second": round(num_pictures / cpu, 1)}
        quality = {"target_accuracy": "", "target_ece": "", "steps": "", **facts}
        rows.append(
            {
                "threads": torch.get_num_threads(),
                "what": what,
                "seconds": wall,
                "cpu_seconds": cpu,
                **rates,
                **quality,
            }
        )

    recipes = {
        name: Recipe.from_names(name, backbone=BACKBONE, training={"epochs": epochs}, freeze_backbone=True)
        for name in ("calibrated", "adapted")
    }
    with tempfile.TemporaryDirectory() as cache:
        os.environ["SHIFTCAL_CACHE"] = cache
        frozen = FrozenBackbone.of(recipes["adapted"], source.inputs.shape)
        started = now()
        frozen.freeze(problem)
        note("extraction", started)
        for name, recipe in recipes.items():
            started = now()
            model = fit_with_fallback(problem, recipe)
            probabilities = torch.softmax(model.predict(target.inputs).logits.double(), dim=-1)
            labels = target.labels_among(model.classes)
            note(
                f"head by {name}, fallback and predictions included",
                started,
                target_accuracy=accuracy(probabilities, labels),
                target_ece=expected_calibration_error(probabilities, labels),
                steps=round(model.recipe.training.steps_per_epoch(round(0.9 * len(source))) * len(model.history)),
            )
    return rows


def now() -> tuple[float, float]:
    """On the clock, and of the processor."""
    return time.perf_counter(), time.process_time()


def declare(parser: argparse.ArgumentParser) -> None:
    """Which tasks."""
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))


def jobs(arguments: argparse.Namespace) -> Iterator[Job]:
    """One for each task, with a cache of its own."""
    for task in arguments.tasks:
        source, target, size, _ = TASKS[task]
        yield Job({"task": f"{source} to {target}", "size": size}, partial(measure, task))


BENCHMARKS = {"frozen_backbones": Benchmark(jobs, declare=declare)}
