"""Does the fallback see the harm that adapting did? Its question, put to the runs of a comparison.

SHIFTCAL_DATA=... python benchmarks/fallback_check.py COMPARISON FILE.csv

A row for each task, seed and method that has a run of `source-only` beside it:
accuracy and agreement with the target's clusters, of the method and of the reference. Labels are for the accuracy
alone.
"""

from __future__ import annotations

import csv
import sys
from functools import cache
from pathlib import Path

import numpy as np

from shiftcal.core.progress import progress_bar
from shiftcal.data.batches import ShiftProblem
from shiftcal.data.domains import LabelledDomain
from shiftcal.data.inputs import ImageFormat
from shiftcal.data.specs import load_domain
from shiftcal.runs.comparison import find_cells
from shiftcal.runs.folder import RunFolder
from shiftcal.training.fallback import check_adaptation
from shiftcal.training.fitted_model import FittedModel, load_model

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


def main(comparison: Path, out: Path) -> None:
    """Write the table, and print how often the two agree."""
    cells = find_cells(comparison)
    judged = [key for key in cells if key[1] not in NOT_ADAPTING and (key[0], REFERENCE, key[2]) in cells]
    rows = []
    for key in progress_bar(judged, "judging"):
        folder, reference_folder = cells[key], cells[key[0], REFERENCE, key[2]]
        reference = reference_model(reference_folder.checkpoint)
        found = check_adaptation(load_model(folder.checkpoint), reference, problem(key[0], reference.input_shape))
        agreements = (found.adapted_agreement, found.source_agreement)
        rows.append([accuracy(folder), agreements[0], accuracy(reference_folder), agreements[1], found.fell_back])
    numbers = np.array(rows)
    with out.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(
            ["task", "method", "seed", "accuracy", "agreement", "source_accuracy", "source_agreement", "fell_back"]
        )
        writer.writerows([*key, *map("{:.4f}".format, row)] for key, row in zip(judged, numbers, strict=True))
    gain, agreement_gain = (numbers[:, :2] - numbers[:, 2:4]).T
    harmful, good, given_up = gain < -CLEARLY, gain > CLEARLY, numbers[:, 4] == 1
    print(
        f"{len(judged)} runs: of {harmful.sum()} that lost over a point of accuracy {(harmful & given_up).sum()} "
        f"would be given up, of {good.sum()} that gained over a point {(good & given_up).sum()}; correlation of the "
        f"gains {np.corrcoef(gain, agreement_gain)[0, 1]:.3f}"
    )


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
