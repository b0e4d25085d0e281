"""Does the fallback see the harm that adapting did? Its question, put to the runs of a comparison.

A row for each task, seed and method that has a run of `source-only` beside it:
accuracy and agreement with the target's clusters, of the method and of the reference. Labels are for the accuracy
alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, partial
from pathlib import Path

import numpy as np
from benchmarks.frame import Job, Rows, of_comparisons

from shiftcal.data.batches import ShiftProblem
from shiftcal.data.domains import LabelledDomain
from shiftcal.data.inputs import ImageFormat
from shiftcal.data.specs import load_domain
from shiftcal.runs.comparison.plan import Folders
from shiftcal.runs.folder import RunFolder
from shiftcal.training.fallback import check_adaptation
from shiftcal.training.fitted_model import FittedModel
from shiftcal.training.saved_model import load_model

REFERENCE = "source-only"
NOT_ADAPTING = (REFERENCE, "drl", "asg")
CLEARLY = 0.01


@cache
def reference_model(checkpoint: Path) -> FittedModel:
    """The reference of a task and seed."""
    return load_model(checkpoint)


@cache
def problem(task: str, input_shape: tuple[int, ...]) -> ShiftProblem:
    """What the models of a task were trained on, in the form that they take."""
    source_spec, target_spec = (spec.partition("@")[0] for spec in task.split("->"))
    image_format = ImageFormat(input_shape[1], input_shape[0]) if len(input_shape) == 3 else None
    source, target = (load_domain(spec, image_format=image_format) for spec in (source_spec, target_spec))
    assert isinstance(source, LabelledDomain)
    return ShiftProblem(source, target.without_labels() if isinstance(target, LabelledDomain) else target)


def accuracy(folder: RunFolder) -> float:
    """On the target, which only evaluation may know."""
    value = folder.read_metrics()["target"]["accuracy"]
    assert value is not None
    return value


def measure(folder: RunFolder, reference_folder: RunFolder, task: str) -> Iterator[dict[str, float]]:
    """One row."""
    reference = reference_model(reference_folder.checkpoint)
    found = check_adaptation(load_model(folder.checkpoint), reference, problem(task, reference.input_shape))
    yield {
        "accuracy": accuracy(folder),
        "agreement": found.adapted_agreement,
        "source_accuracy": accuracy(reference_folder),
        "source_agreement": found.source_agreement,
        "fell_back": float(found.fell_back),
    }


def jobs(cells: Folders) -> Iterator[Job]:
    """Every cell that adapts and has a reference beside it."""
    for (task, method, seed), folder in cells.items():
        reference = cells.get((task, REFERENCE, seed))
        # A calibrator does not change which class is predicted.
        if method not in NOT_ADAPTING and "+" not in method and reference is not None:
            yield Job({"task": task, "method": method, "seed": seed}, partial(measure, folder, reference, task))


def summary(rows: Rows) -> str:
    """How often the two agree."""
    columns = ("accuracy", "agreement", "source_accuracy", "source_agreement", "fell_back")
    numbers = np.array([[float(row[name]) for name in columns] for row in rows])
    gain, agreement_gain = (numbers[:, :2] - numbers[:, 2:4]).T
    harmful, good, given_up = gain < -CLEARLY, gain > CLEARLY, numbers[:, 4] == 1
    return (
        f"{len(rows)} runs: of {harmful.sum()} that lost over a point of accuracy {(harmful & given_up).sum()} "
        f"would be given up, of {good.sum()} that gained over a point {(good & given_up).sum()}; correlation of the "
        f"gains {np.corrcoef(gain, agreement_gain)[0, 1]:.3f}\n"
    )


BENCHMARKS = {"fallback_check": of_comparisons(jobs, table=summary)}
