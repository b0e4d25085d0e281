"""Carries out the cells of a comparison that are missing, by an engine: in this process, in several, on a cluster.

Every cell is a run folder; finished cells are skipped, interrupted ones go on where they stopped. A method is
trained once for each task and seed, and its calibrators are fitted to that one model, which is asked once what it
says of both domains.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from shiftcal.calibrators.base import CalibrationData
from shiftcal.core.errors import InvalidInputError, OutputError, ShiftcalError
from shiftcal.core.files import check_writable_folder, is_temporary
from shiftcal.core.folder_lock import LOCK_FILE, folder_lock
from shiftcal.core.progress import progress_bar
from shiftcal.data.batches import ShiftProblem
from shiftcal.data.domains import LabelledDomain
from shiftcal.runs.comparison.plan import ComparisonPlan, Training, cell_folder, cells_of, trainings_of
from shiftcal.runs.comparison.tables import write_tables
from shiftcal.runs.config import RunConfig
from shiftcal.runs.engines import Engine, LocalProcesses
from shiftcal.runs.folder import RunFolder
from shiftcal.runs.life_cycle import begin_run, carry_out_run, check_same_content, check_same_options, finish_run
from shiftcal.runs.reporting import ComparisonTable
from shiftcal.runs.run_data import LoadedData, load_data
from shiftcal.runs.tasks import Task
from shiftcal.training.fit import fit_model
from shiftcal.training.fitted_model import FittedModel, check_held_out, source_split
from shiftcal.training.saved_model import load_model

# A cell is done again where its machine is lost, whose locks the storage that it shared keeps for a minute or two.
_SECONDS_FOR_LOST_MACHINES = 180.0
_IN_THIS_PROCESS = LocalProcesses()


def run_comparison(
    plan: ComparisonPlan, out: Path, *, engine: Engine = _IN_THIS_PROCESS, learning_curves: bool = False
) -> ComparisonTable:
    """Run what is missing, then write tables and the report.

    Args:
        plan: tasks, contenders and seeds.
        out: folder of the comparison; cells that are finished there are kept.
        engine: what trains, one model after the other or several at a time.
        learning_curves: evaluate the models that are yet to be trained after each epoch too.

    Raises:
        OutputError: the folder holds cells of other options or data, or another process is at work in it.
        ProcessLostError: a process or machine was lost; the same call goes on from there.
        TrainingInterrupted: a signal came; the same call goes on from there.
    """
    for task in plan.tasks:
        for contender in plan.contenders:
            # Everything that can be wrong with names and values is found before anything runs.
            settings = (*plan.settings, *contender.settings)
            if any(setting.startswith(("random_state=", "training.random_state=")) for setting in settings):
                raise InvalidInputError("random_state can't be set in a comparison: it is the number of each seed")
            plan.config(task, contender, 0).recipe()
    cells = cells_of(plan, out)
    if len({cell.path for cell in cells.values()}) < len(cells):
        raise InvalidInputError("two tasks or methods would share a folder: their names differ in punctuation only")
    _check_folder(out)
    with folder_lock(out):
        _loaded.cache_clear()  # the files may have changed since another comparison of this process
        trainings = [training for training in trainings_of(plan) if not _is_finished(plan, training, out)]
        sizes = _checked_sizes(plan, trainings)
        if engine.several_at_a_time:
            # Else all would wait in the end for one that is long and began last.
            trainings.sort(key=lambda training: sizes[training.task], reverse=True)
        carry_out = partial(_carry_out, plan, out=out, learning_curves=learning_curves)
        carried_out = engine.results(carry_out, trainings)
        for _ in progress_bar(carried_out, "comparing", total=len(trainings), unit="model"):
            pass
        _remove_abandoned_locks(plan, out)
        # A curve belongs to a model as it was trained, whether or not that is compared without a calibrator too.
        trained = replace(plan, contenders=tuple(dict.fromkeys(contender.trained for contender in plan.contenders)))
        return write_tables(out, cells, trained=cells_of(trained, out))


def _check_folder(out: Path) -> None:
    check_writable_folder(out)
    if not out.is_dir() or (out / "cells").is_dir():
        return
    if any(path.name != LOCK_FILE and not is_temporary(path) for path in out.iterdir()):
        raise OutputError(f"{str(out)!r} holds other files than a comparison; choose a new or empty folder")


def _is_finished(plan: ComparisonPlan, training: Training, out: Path) -> bool:
    """Whether all cells are there, of the same data and options as now."""
    finished = True
    for contender in (training.trained, *training.contenders):
        cell = cell_folder(out, training.task, contender, training.seed)
        if cell.is_finished:
            config = plan.config(training.task, contender, training.seed)
            check_same_options(config, cell)
            check_same_content(config, _task_data(config, plan.download), cell)
        elif contender in training.contenders:
            finished = False
    return finished


def _checked_sizes(plan: ComparisonPlan, trainings: Sequence[Training]) -> dict[Task, int]:
    """Load each task's data once before anything runs, so that what is absent is said at once.

    Returns:
        How many values a training of each task sees, by one of its contenders: they are taken to be alike.
    """
    sizes = {}
    for training in {training.task: training for training in trainings}.values():
        config = plan.config(training.task, training.trained, 0)
        data = _task_data(config, plan.download)
        if not isinstance(data.test, LabelledDomain):
            raise InvalidInputError(
                f"task {training.task.name!r}: a comparison needs labels of the target for evaluation (training does "
                "not see them). Give a labelled target, or labelled test data: SOURCE->TARGET@TEST."
            )
        source, options = data.problem.source, config.recipe().training
        num_steps = options.resolved_epochs(len(source)) * options.steps_per_epoch(len(source))
        sizes[training.task] = num_steps * math.prod(source.inputs.shape)
        for contender in plan.contenders:
            recipe = plan.config(training.task, contender, 0).recipe()
            if recipe.calibrator is not None and recipe.calibrator.needs_held_out:
                check_held_out(recipe, source_split(source, recipe.training)[1])
    return sizes


def _carry_out(plan: ComparisonPlan, training: Training, *, out: Path, learning_curves: bool) -> None:
    config = plan.config(training.task, training.trained, training.seed)
    data = _task_data(config, plan.download)
    base = cell_folder(out, training.task, training.trained, training.seed)
    try:
        # A machine that is taken for lost may still be at work in this cell.
        with folder_lock(base.path, wait_seconds=_SECONDS_FOR_LOST_MACHINES):
            observer = _Observer()
            model = _trained_model(base, config, data, training, observer, learning_curves)
            _calibrate(plan, model, data, training, observer, out)
    except ShiftcalError:
        _remove_empty_folders(base, out)
        raise


class _Observer:
    """Fits calibrators to one network: it is asked once, and estimates that several of them need are made once."""

    _known: CalibrationData | None = None

    def observed(self, model: FittedModel, problem: ShiftProblem) -> CalibrationData:
        """What the network says of both domains, whatever the calibrator behind it."""
        if self._known is None:
            self._known = model.observed(problem)
        return self._known

    def calibrated(self, model: FittedModel, problem: ShiftProblem) -> FittedModel:
        """The model with the calibrator of its recipe fitted."""
        return model.calibrated(problem, self.observed(model, problem))


def _trained_model(
    base: RunFolder,
    config: RunConfig,
    data: LoadedData,
    training: Training,
    observer: _Observer,
    learning_curves: bool,
) -> FittedModel:
    if base.is_finished:
        return load_model(base.checkpoint)
    facts = {"task": training.task.name, "contender": training.trained.name}
    fit = partial(fit_model, resume=True, calibrate=observer.calibrated)
    return carry_out_run(base, config, data, fit, learning_curve=learning_curves, facts=facts)


def _calibrate(
    plan: ComparisonPlan, model: FittedModel, data: LoadedData, training: Training, observer: _Observer, out: Path
) -> None:
    """The cells of one trained model that are missing."""
    for contender in training.contenders:
        cell = cell_folder(out, training.task, contender, training.seed)
        if not cell.is_finished:
            own = plan.config(training.task, contender, training.seed)
            observed = observer.observed(model, data.problem)
            calibrated = model.with_calibrator(
                contender.calibrator, data.problem, own.calibrator_options, observed=observed
            )
            facts = {"task": training.task.name, "contender": contender.name}
            begin_run(cell, data.resolved(own), data)
            finish_run(cell, calibrated, data, data.resolved(own), facts=facts)


def _remove_abandoned_locks(plan: ComparisonPlan, out: Path) -> None:
    """Those of processes that were killed after the last file of their cells."""
    for training in trainings_of(plan):
        base = cell_folder(out, training.task, training.trained, training.seed).path
        if (base / LOCK_FILE).exists():
            with folder_lock(base):
                pass


def _remove_empty_folders(cell: RunFolder, out: Path) -> None:
    """Leave no trace of folders that were made for a cell alone which left nothing."""
    for folder in (cell.path, *cell.path.parents):
        with suppress(OSError):  # not there, or not empty
            folder.rmdir()
        if folder == out:
            break


@lru_cache(maxsize=4)
def _loaded(data: tuple[tuple[str, Any], ...], backbone: str, download: bool) -> Any:
    return load_data(RunConfig(**dict(data), backbone=backbone), download=download)


def _task_data(config: RunConfig, download: bool) -> LoadedData:
    data: LoadedData = _loaded(tuple(config.data().items()), config.backbone, download)
    return data
