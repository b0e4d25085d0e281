"""Methods x tasks x seeds on equal terms: the same data, backbone, budget and seeds for every method.

Every cell is a run folder; finished cells are skipped, interrupted ones go on where they stopped. A method is
trained once for each task and seed, and its calibrators are fitted to that one model.
"""

from __future__ import annotations

import csv
import multiprocessing
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch

from shiftcal.calibrators import calibrator_class
from shiftcal.runs.config import RunConfig
from shiftcal.data.domains import LabelledDomain
from shiftcal.core.errors import InvalidInputError, OutputError, ShiftcalError
from shiftcal.runs.experiment import (
    LoadedData,
    check_same_options,
    finish_run,
    learning_curve_of,
    load_data,
    read_contents,
)
from shiftcal.core.files import check_writable_folder, written_whole
from shiftcal.training.fitted_model import check_held_out, load_model
from shiftcal.training.fit import fit_model, source_split
from shiftcal.core.progress import progress_bar
from shiftcal.runs.reporting import Cell, ComparisonTable, as_markdown, comparison_table, write_report
from shiftcal.runs.folder import RunFolder
from shiftcal.runs.tasks import SEPARATOR, Task

# Of the source a comparison tells these; whatever else there is stands in the folders of the cells.
_SOURCE_METRICS = ("accuracy", "expected_calibration_error", "brier_score")
# By task, method and seed.
_Folders = Mapping[tuple[str, str, int], RunFolder]
_NAME_AND_SETTINGS = r"([^\[\]+]+)(?:\[([^\[\]]*)\])?"


@dataclass(frozen=True)
class Contender:
    """A row of the comparison: `METHOD` or `METHOD+CALIBRATOR`, each perhaps with options `[key=value;key=value]`."""

    method: str
    calibrator: str | None = None
    settings: tuple[str, ...] = ()
    """Of the method or of training."""
    calibrator_settings: tuple[str, ...] = ()

    @property
    def trained(self) -> Contender:
        """The contender without its calibrator: what is trained."""
        return replace(self, calibrator=None, calibrator_settings=())

    @property
    def name(self) -> str:
        """As it is written on the command line."""
        name = self.method + _in_brackets(self.settings)
        return name + (f"+{self.calibrator}{_in_brackets(self.calibrator_settings)}" if self.calibrator else "")


def _in_brackets(settings: tuple[str, ...]) -> str:
    return f"[{';'.join(settings)}]" if settings else ""


@dataclass(frozen=True)
class ComparisonPlan:
    """What is compared on what."""

    tasks: tuple[Task, ...]
    contenders: tuple[Contender, ...]
    num_seeds: int = 3
    backbone: str = "auto"
    image_size: int | None = None
    settings: tuple[str, ...] = field(default=())
    """`key=value` settings that hold for every method."""
    download: bool = False

    def config(self, task: Task, contender: Contender, seed: int) -> RunConfig:
        """The configuration of a cell."""
        plain = RunConfig(
            source=task.source,
            target=task.target,
            test=task.test,
            source_test=task.source_test,
            method=contender.method,
            backbone=self.backbone,
            image_size=self.image_size,
            fallback=False,  # methods are compared as they are
        )
        # Without the calibrator first: one model is trained for all calibrators, so only what follows is their own.
        trained = plain.with_settings([*self.settings, *contender.settings, f"random_state={seed}"])
        calibrated = replace(trained, calibrator=contender.calibrator)
        return calibrated.with_settings([f"calibrator.{setting}" for setting in contender.calibrator_settings])


@dataclass(frozen=True)
class _Training:
    """Cells that share one trained model."""

    task: Task
    trained: Contender
    contenders: tuple[Contender, ...]
    seed: int


def parse_contenders(text: str) -> tuple[Contender, ...]:
    """Contenders from a list with commas.

    Raises:
        InvalidInputError: the list is empty or an entry is malformed.
        UnknownNameError: no such method or calibrator.
    """
    contenders = []
    for entry in filter(None, (part.strip() for part in text.split(","))):
        match = re.fullmatch(rf"{_NAME_AND_SETTINGS}(?:\+{_NAME_AND_SETTINGS})?", entry)
        if match is None:
            raise InvalidInputError(
                f"expected METHOD[key=value;...]+CALIBRATOR[key=value;...], or less of it, got {entry!r}"
            )
        method, settings, calibrator, calibrator_settings = match.groups()
        if calibrator is not None:
            calibrator_class(calibrator)
        contenders.append(Contender(method, calibrator, _split(settings), _split(calibrator_settings)))
    if not contenders:
        raise InvalidInputError("expected at least one method to compare, got none")
    return tuple(dict.fromkeys(contenders))


def _split(settings: str | None) -> tuple[str, ...]:
    return tuple(filter(None, (settings or "").split(";")))


def run_comparison(
    plan: ComparisonPlan, out: Path, *, jobs: int = 1, learning_curves: bool = False
) -> ComparisonTable:
    """Run what is missing, then write tables and the report.

    Args:
        plan: tasks, contenders and seeds.
        out: folder of the comparison; cells that are finished there are kept.
        jobs: processes that train at the same time.
        learning_curves: evaluate the models that are yet to be trained after each epoch too.

    Raises:
        OutputError: the folder holds cells of other options.
        TrainingInterrupted: a signal came; the same call goes on from there.
    """
    _check_folder(out)
    for task in plan.tasks:
        for contender in plan.contenders:
            # Everything that can be wrong with names and values is found before anything runs.
            settings = (*plan.settings, *contender.settings)
            if any(setting.startswith(("random_state=", "training.random_state=")) for setting in settings):
                raise InvalidInputError("random_state can't be set in a comparison: it is the number of each seed")
            plan.config(task, contender, 0).recipe()
    cells = _cells(plan, out)
    if len({cell.path for cell in cells.values()}) < len(cells):
        raise InvalidInputError("two tasks or methods would share a folder: their names differ in punctuation only")
    trainings = [training for training in _trainings(plan) if not _is_finished(plan, training, out)]
    _loaded.cache_clear()  # the files may have changed since another comparison of this process
    _check_data(plan, trainings)
    carried_out = _carried_out(plan, trainings, out, jobs, learning_curves)
    for _ in progress_bar(carried_out, "comparing", total=len(trainings), unit="model"):
        pass
    # A curve belongs to a model as it was trained, whether or not that is compared without a calibrator too.
    trained = replace(plan, contenders=tuple(dict.fromkeys(contender.trained for contender in plan.contenders)))
    return write_tables(out, cells, trained=_cells(trained, out))


def write_tables(
    out: Path, folders: _Folders, *, report: Path | None = None, trained: _Folders | None = None
) -> ComparisonTable:
    """Write the tables and the report of a comparison.

    Args:
        out: folder for results.csv, table.md and, if any cell has a learning curve, learning_curves.csv.
        folders: finished cells by (task, method, seed).
        report: where the report goes instead of report.html in `out`.
        trained: cells that may have a learning curve, if these are not the same.
    """
    metrics = {key: _compared_metrics(folder) for key, folder in folders.items()}
    if all("accuracy" not in numbers for numbers in metrics.values()):
        raise InvalidInputError("a comparison needs labels of the target for evaluation, and no task has any")
    cells = [
        Cell(*key, {name: value for name, value in numbers.items() if value is not None})
        for key, numbers in metrics.items()
    ]
    table = comparison_table(cells)
    _write_csv(out / "results.csv", cells)
    candidates = {key: folder.read_learning_curve() for key, folder in (trained or folders).items()}
    curves = {key: rows for key, rows in candidates.items() if rows}
    if curves:
        _write_csv(out / "learning_curves.csv", [Cell(*key, row) for key, rows in curves.items() for row in rows])
    else:
        (out / "learning_curves.csv").unlink(missing_ok=True)
    with written_whole(out / "table.md") as temporary:
        temporary.write_text(as_markdown(table) + "\n", encoding="utf-8")
    shown_task, shown_seed = next((task, seed) for task, _, seed in folders)
    shown = [
        replace(read_contents(folder), name=method)
        for (task, method, seed), folder in folders.items()
        if (task, seed) == (shown_task, shown_seed)
    ]
    title = f"Comparison; in detail: {shown_task.replace(SEPARATOR, ' → ')}, seed {shown_seed}"
    write_report(shown, report or out / "report.html", title=title, table=table, curves=curves)
    return table


def _compared_metrics(folder: RunFolder) -> dict[str, float | None]:
    """Those of the target by their names, and some of the source under names of their own."""
    metrics = folder.read_metrics()
    source = metrics["source"] if metrics["source"]["held_out"] else {}
    return metrics["target"] | {f"source_{name}": source.get(name) for name in _SOURCE_METRICS}


def find_cells(out: Path) -> dict[tuple[str, str, int], RunFolder]:
    """Finished cells below the folder of a comparison, by (task, method, seed)."""
    found = {}
    for marker in sorted((out / "cells").glob("*/*/*/metrics.json")):
        folder = RunFolder(marker.parent)
        card = folder.read_card()
        found[card["task"], card["contender"], card["seed"]] = folder
    return found


def _check_folder(out: Path) -> None:
    check_writable_folder(out)
    if out.is_dir() and any(out.iterdir()) and not (out / "cells").is_dir():
        raise OutputError(f"{str(out)!r} holds other files than a comparison; choose a new or empty folder")


def _trainings(plan: ComparisonPlan) -> Iterator[_Training]:
    by_trained: dict[Contender, list[Contender]] = {}
    for contender in plan.contenders:
        by_trained.setdefault(contender.trained, []).append(contender)
    for task in plan.tasks:
        for seed in range(plan.num_seeds):
            for trained, contenders in by_trained.items():
                yield _Training(task, trained, tuple(contenders), seed)


def _cells(plan: ComparisonPlan, out: Path) -> dict[tuple[str, str, int], RunFolder]:
    return {
        (task.name, contender.name, seed): _cell(out, task, contender, seed)
        for task in plan.tasks
        for contender in plan.contenders
        for seed in range(plan.num_seeds)
    }


def _cell(out: Path, task: Task, contender: Contender, seed: int) -> RunFolder:
    # Names become folders: whatever a file system may refuse is written as a dash or underscore.
    task_name = re.sub(r"[^\w.+=-]+", "_", task.name.replace(SEPARATOR, "--"))
    contender_name = re.sub(r"[^\w.+=-]+", "_", contender.name)
    return RunFolder(out / "cells" / task_name / contender_name / f"seed-{seed}")


def _is_finished(plan: ComparisonPlan, training: _Training, out: Path) -> bool:
    finished = True
    for contender in (training.trained, *training.contenders):
        cell = _cell(out, training.task, contender, training.seed)
        if cell.is_finished:
            check_same_options(plan.config(training.task, contender, training.seed), cell)
        elif contender in training.contenders:
            finished = False
    return finished


def _check_data(plan: ComparisonPlan, trainings: Sequence[_Training]) -> None:
    """Load each task's data once before anything runs, so that what is absent is said at once."""
    for training in {training.task: training for training in trainings}.values():
        data = _task_data(plan.config(training.task, training.trained, 0), plan.download)
        if not isinstance(data.test, LabelledDomain):
            raise InvalidInputError(
                f"task {training.task.name!r}: a comparison needs labels of the target for evaluation (training does "
                "not see them). Give a labelled target, or labelled test data: SOURCE->TARGET@TEST."
            )
        for contender in plan.contenders:
            recipe = plan.config(training.task, contender, 0).recipe()
            if recipe.calibrator is not None:
                check_held_out(recipe, source_split(data.problem.source, recipe.training)[1])


def _carried_out(
    plan: ComparisonPlan, trainings: Sequence[_Training], out: Path, jobs: int, learning_curves: bool
) -> Iterable[None]:
    if jobs == 1 or len(trainings) <= 1:
        for training in trainings:
            _carry_out(plan, training, out, learning_curves)
            yield
        return
    # Spawned, not forked: torch's threads do not survive a fork.
    context = multiprocessing.get_context("spawn")
    threads = max(1, torch.get_num_threads() // jobs)
    with ProcessPoolExecutor(
        jobs, mp_context=context, initializer=torch.set_num_threads, initargs=(threads,)
    ) as pool:
        futures = [pool.submit(_carry_out, plan, training, out, learning_curves) for training in trainings]
        try:
            for future in as_completed(futures):
                future.result()
                yield
        except BaseException:
            pool.shutdown(wait=True, cancel_futures=True)
            raise


def _carry_out(plan: ComparisonPlan, training: _Training, out: Path, learning_curves: bool) -> None:
    config = plan.config(training.task, training.trained, training.seed)
    data = _task_data(config, plan.download)
    base = _cell(out, training.task, training.trained, training.seed)
    if base.is_finished:
        model = load_model(base.checkpoint)
    else:
        config = data.resolved(config)
        watch = learning_curve_of(base, data, config.recipe()) if learning_curves else None
        if base.is_started:
            check_same_options(config, base)
        else:
            base.remove_remains()
        base.write_config({**config.data(), **config.recipe().as_plain()})
        try:
            model = fit_model(data.problem, config.recipe(), checkpoint=base.checkpoint, resume=True, watch=watch)
        except ShiftcalError:
            if not base.checkpoint.exists():
                _withdraw(base, out)
            raise
        _finish_cell(base, training, training.trained, config, data, model)
    _, validation = source_split(data.problem.source, model.recipe.training)
    for contender in training.contenders:
        cell = _cell(out, training.task, contender, training.seed)
        if not cell.is_finished:
            wanted = plan.config(training.task, contender, training.seed).calibrator_options
            calibrated = model.with_calibrator(contender.calibrator, validation, data.problem.target, wanted)
            _finish_cell(cell, training, contender, data.resolved(config), data, calibrated)


def _withdraw(cell: RunFolder, out: Path) -> None:
    """Leave no trace of a cell that failed before its first checkpoint, nor of folders made for it alone."""
    cell.withdraw()
    for folder in cell.path.parents:
        with suppress(OSError):  # not empty
            folder.rmdir()
        if folder == out:
            break


def _finish_cell(
    cell: RunFolder, training: _Training, contender: Contender, config: RunConfig, data: LoadedData, model: Any
) -> None:
    finish_run(cell, model, data, config, facts={"task": training.task.name, "contender": contender.name})


@lru_cache(maxsize=4)
def _loaded(data: tuple[tuple[str, Any], ...], backbone: str, download: bool) -> Any:
    return load_data(RunConfig(**dict(data), backbone=backbone), download=download)


def _task_data(config: RunConfig, download: bool) -> LoadedData:
    data: LoadedData = _loaded(tuple(config.data().items()), config.backbone, download)
    return data


def _write_csv(path: Path, cells: Sequence[Cell]) -> None:
    names = list(dict.fromkeys(name for cell in cells for name in cell.metrics))
    with written_whole(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(["task", "method", "seed", *names])
        writer.writerows([c.task, c.method, c.seed, *(c.metrics.get(name, "") for name in names)] for c in cells)
