"""Methods x tasks x seeds: the configuration and the folder of every cell."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from shiftcal.data.table_encoder import TableColumns
from shiftcal.runs.comparison.contenders import Contender
from shiftcal.runs.config import RunConfig
from shiftcal.runs.folder import RunFolder
from shiftcal.runs.tasks import SEPARATOR, Task

Folders = dict[tuple[str, str, int], RunFolder]
"""Cells by task, method and seed."""


@dataclass(frozen=True)
class ComparisonPlan:
    """What is compared on what."""

    tasks: tuple[Task, ...]
    contenders: tuple[Contender, ...]
    num_seeds: int = 3
    first_seed: int = 0
    """Above 0 to go on with a comparison whose earlier seeds were run elsewhere."""
    backbone: str = "auto"
    freeze_backbone: bool = False
    image_size: int | None = None
    table: TableColumns = TableColumns()
    """What the columns of tables are."""
    settings: tuple[str, ...] = field(default=())
    """`key=value` settings that hold for every method."""
    download: bool = False

    @property
    def seeds(self) -> range:
        """Of every method on every task."""
        return range(self.first_seed, self.first_seed + self.num_seeds)

    def config(self, task: Task, contender: Contender, seed: int) -> RunConfig:
        """The configuration of a cell."""
        plain = RunConfig(
            source=task.source,
            target=task.target,
            test=task.test,
            source_test=task.source_test,
            method=contender.method,
            backbone=self.backbone,
            freeze_backbone=self.freeze_backbone,
            image_size=self.image_size,
            label=self.table.label,
            id=self.table.id,
            ignore=self.table.ignore or None,
            columns=self.table.columns,
            fallback=False,  # methods are compared as they are
        )
        own = plain.with_keys(contender.of_network)
        # Without the calibrator first: one model is trained for all calibrators, so only what follows is their own.
        trained = own.with_settings([*self.settings, *contender.options, f"random_state={seed}"])
        calibrated = replace(trained, calibrator=contender.calibrator)
        return calibrated.with_settings([f"calibrator.{setting}" for setting in contender.calibrator_settings])


@dataclass(frozen=True)
class Training:
    """Cells that share one trained model."""

    task: Task
    trained: Contender
    contenders: tuple[Contender, ...]
    seed: int


def trainings_of(plan: ComparisonPlan) -> Iterator[Training]:
    """What is to be trained: each method once for each task and seed, whatever stands behind it."""
    by_trained: dict[Contender, list[Contender]] = {}
    for contender in plan.contenders:
        by_trained.setdefault(contender.trained, []).append(contender)
    for task in plan.tasks:
        for seed in plan.seeds:
            for trained, contenders in by_trained.items():
                yield Training(task, trained, tuple(contenders), seed)


def cells_of(plan: ComparisonPlan, out: Path) -> Folders:
    """The folder of every cell."""
    return {
        (task.name, contender.name, seed): cell_folder(out, task, contender, seed)
        for task in plan.tasks
        for contender in plan.contenders
        for seed in plan.seeds
    }


def cell_folder(out: Path, task: Task, contender: Contender, seed: int) -> RunFolder:
    """Of one cell."""
    # Names become folders: whatever a file system may refuse is written as a dash or underscore.
    task_name = re.sub(r"[^\w.+=-]+", "_", task.name.replace(SEPARATOR, "--"))
    contender_name = re.sub(r"[^\w.+=-]+", "_", contender.name)
    return RunFolder(out / "cells" / task_name / contender_name / f"seed-{seed}")
