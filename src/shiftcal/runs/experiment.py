"""The whole path of a run, read from top to bottom: data, training, predictions, metrics, report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from shiftcal.runs.config import RunConfig
from shiftcal.data.batches import ShiftProblem
from shiftcal.data.domains import LabelledDomain, UnlabelledDomain
from shiftcal.data.inputs import ImageFormat
from shiftcal.data.pseudo_label_rounds import load_pseudo_label_rounds, save_pseudo_label_rounds
from shiftcal.data.specs import load_domain, load_pair
from shiftcal.core.errors import InvalidInputError, OutputError, ShiftcalError
from shiftcal.runs.evaluation import (
    coverage_of_sets,
    judge_pseudo_labels,
    predict_domain,
    summarize,
    verdict_on_adaptation,
    verdict_on_estimate,
    verdict_on_sets,
)
from shiftcal.training.fallback import fit_with_fallback, reference_checkpoint
from shiftcal.core.files import check_writable_folder
from shiftcal.training.fitted_model import FittedModel
from shiftcal.training.fit import source_split
from shiftcal.runs.learning_curve import LearningCurve
from shiftcal.methods.networks.backbones import default_image_size
from shiftcal.runs.predictions import load_predictions, save_predictions
from shiftcal.core.processes import is_main_process
from shiftcal.training.recipe import Recipe, decisive
from shiftcal.runs.reporting import RunContents, write_report
from shiftcal.runs.folder import RunFolder


@dataclass(frozen=True)
class LoadedData:
    """The domains of a run, brought to one format."""

    problem: ShiftProblem
    test: LabelledDomain | UnlabelledDomain
    """What is predicted and, if it has labels, evaluated after training; training never sees it."""
    labelled_target: LabelledDomain | None = None
    """The target of the problem with its labels, where it has any: for judging pseudo-labels after training."""
    source_test: LabelledDomain | UnlabelledDomain | None = None
    """What stands for the source in evaluation; None: the part of it that training holds out."""

    def resolved(self, config: RunConfig) -> RunConfig:
        """The configuration with the image size that the data was brought to."""
        inputs = self.problem.source.inputs
        return replace(config, image_size=inputs.shape[1]) if inputs.kind == "images" else config


def run_experiment(
    config: RunConfig, out: Path, *, resume: bool = False, download: bool = False, learning_curve: bool = False
) -> RunFolder:
    """Train, predict, evaluate and report into a folder.

    Args:
        config: the data and the recipe.
        out: the folder; created after everything that can be checked beforehand was checked.
        resume: go on with an interrupted run of the same configuration.
        download: whether data sets may be fetched.
        learning_curve: evaluate the test data after each epoch too; the model is the same with and without.

    Raises:
        InvalidInputError: a learning curve is asked for and the test data has no labels.
        TrainingInterrupted: a signal came; `resume` goes on from there.
    """
    recipe = config.recipe()
    folder = RunFolder(out)
    if is_main_process():
        check_run_folder(folder, resume=resume)
        if folder.is_started:
            check_same_options(config, folder)
    if folder.is_finished:
        if is_main_process() and not folder.report.exists():
            report_run(folder)
        return folder
    data = load_data(config, download=download)
    config = data.resolved(config)
    watch = learning_curve_of(folder, data, recipe) if learning_curve else None
    if is_main_process():
        if not folder.is_started:
            folder.remove_remains()
        folder.write_config({**config.data(), **recipe.as_plain()})
    try:
        model = fit_with_fallback(
            data.problem,
            recipe,
            fallback=config.fallback,
            checkpoint=folder.checkpoint,
            resume=resume,
            after_epoch=folder.write_history,
            watch=watch,
        )
        if is_main_process():
            finish_run(folder, model, data, config)
    except ShiftcalError:
        # Without a checkpoint there is nothing to resume, and the same command shall work once its input is mended.
        if is_main_process() and not folder.checkpoint.exists():
            folder.withdraw()
        raise
    if is_main_process():
        report_run(folder)
    return folder


def check_run_folder(folder: RunFolder, *, resume: bool) -> None:
    """Raise `OutputError` if the folder can't take a new run, or the run that is to be resumed."""
    check_writable_folder(folder.path)
    if folder.is_started and not resume:
        raise OutputError(f"{str(folder.path)!r} already holds a run; choose another folder, or add --resume")
    folder.check_no_other_files()


def check_same_options(config: RunConfig, folder: RunFolder) -> None:
    """Raise `OutputError` if the run in the folder was begun with other data or options than the configuration's."""
    wanted = decisive({**config.data(), **config.recipe().as_plain()})
    found = decisive(folder.read_config())
    # What was left open is resolved by the run, the same way each time.
    left_open = {key for key in ("training.epochs", "image_size") if wanted[key] is None}
    name, _, width = str(wanted["backbone"]).partition("+")
    if name == "auto" and width == str(found["backbone"]).partition("+")[2]:
        left_open.add("backbone")
    fixed = (key for key in wanted if key not in left_open)
    different = next((key for key in fixed if wanted[key] != found.get(key)), None)
    if different is not None:
        raise OutputError(
            f"{str(folder.path)!r} was made with another {different.split('.')[-1]}: {found.get(different)!r} then, "
            f"{wanted[different]!r} now. Give the same options, choose another --out, or remove that folder."
        )


def load_data(config: RunConfig, *, download: bool) -> LoadedData:
    """Source, target and test data; the labels of a labelled target stay out of the problem."""
    target_spec = config.source if config.target is None else config.target
    source, target = load_pair(
        config.source,
        target_spec,
        image_size=config.image_size,
        default_image_size=default_image_size(config.backbone),
        download=download,
    )
    unlabelled = target.without_labels() if isinstance(target, LabelledDomain) else target
    problem = ShiftProblem(source, None if config.target is None else unlabelled)
    labelled_target = target if config.target is not None and isinstance(target, LabelledDomain) else None
    source_test = None
    if config.source_test is not None:
        source_test = _test_domain(config.source_test, source, "source test data", download=download)
    return LoadedData(problem, _test_data(config, source, target, download=download), labelled_target, source_test)


def learning_curve_of(folder: RunFolder, data: LoadedData, recipe: Recipe) -> LearningCurve:
    """What evaluates the test data, and the source where it has rows that training does not see, after each epoch.

    Raises:
        InvalidInputError: the test data has no labels, or some that the source does not have.
    """
    if not isinstance(data.test, LabelledDomain):
        raise InvalidInputError(
            f"a learning curve needs labels for evaluation (training does not see them), and {data.test.name!r} has "
            "none. Give a labelled target or labelled test data (--test), or leave out --learning-curve."
        )
    unseen = data.source_test or source_split(data.problem.source, recipe.training)[1]
    source = unseen if isinstance(unseen, LabelledDomain) else None
    return LearningCurve(folder, data.problem.source.classes, data.test, source)


def finish_run(
    folder: RunFolder,
    model: FittedModel,
    data: LoadedData,
    config: RunConfig,
    *,
    facts: Mapping[str, Any] | None = None,
) -> None:
    """Write the model, its predictions and its metrics; further facts go on the run's card."""
    _, validation = source_split(data.problem.source, model.recipe.training)
    # A source too small to hold anything out is shown as it is; `held_out` in the metrics says so.
    unseen = data.source_test or validation
    source = predict_domain(model, unseen or data.problem.source)
    target = predict_domain(model, data.test, keep_examples=True)
    # Written only now: data that can't be read leaves no model that looks like that of a finished run.
    folder.write_model(model, config.data(), facts)
    reference_checkpoint(folder.checkpoint).unlink(missing_ok=True)
    save_predictions(source, folder.source_predictions)
    save_predictions(target, folder.target_predictions)
    rounds = model.pseudo_labels
    if rounds is not None:
        if data.labelled_target is not None:
            rounds = judge_pseudo_labels(rounds, data.labelled_target, model.classes)
        save_pseudo_label_rounds(rounds, folder.pseudo_labels)
    folder.write_metrics(
        {
            "source": {"held_out": unseen is not None, **summarize(source)},
            "target": {
                **summarize(target),
                **coverage_of_sets(model, target),
                **({} if rounds is None else rounds.summary()),
                **model.findings,
            },
        }
    )


def report_run(folder: RunFolder) -> None:
    """Make the report of one run from its folder."""
    contents = read_contents(folder)
    write_report([contents], folder.report, title=f"{contents.name}: {_task_title(folder)}")


def read_contents(folder: RunFolder) -> RunContents:
    """What a report shows of a run, from its files alone.

    Raises:
        InvalidInputError: the run is not finished.
    """
    config = folder.read_config()
    if not folder.is_finished:
        raise InvalidInputError(f"the run in {str(folder.path)!r} is not finished; go on with --resume")
    card = folder.read_card()
    verdicts = {
        "adaptation": verdict_on_adaptation(card.get("findings", {})),
        "verdict": verdict_on_estimate(card.get("findings", {})),
        "prediction sets": verdict_on_sets(folder.read_metrics()["target"]),
    }
    name = config["method"] + (f" + {config['calibrator']}" if config["calibrator"] else "")
    if card.get("findings", {}).get("fell_back"):
        name = f"{config['method']}, fell back to the source alone"
    return RunContents(
        name=name,
        card={**{key: words for key, words in verdicts.items() if words}, "configuration": config, **card},
        history=folder.read_history(),
        source=load_predictions(folder.source_predictions),
        target=load_predictions(folder.target_predictions),
        pseudo_labels=load_pseudo_label_rounds(folder.pseudo_labels) if folder.pseudo_labels.is_file() else None,
        learning_curve=folder.read_learning_curve(),
    )


def load_domain_for(model: FittedModel, spec: str, *, download: bool = False) -> LabelledDomain | UnlabelledDomain:
    """Data for an existing model, brought to the format that it takes."""
    is_image = len(model.input_shape) == 3
    image_format = ImageFormat(size=model.input_shape[1], channels=model.input_shape[0]) if is_image else None
    return load_domain(spec, image_format=image_format, download=download)


def _test_data(
    config: RunConfig,
    source: LabelledDomain,
    target: LabelledDomain | UnlabelledDomain,
    *,
    download: bool,
) -> LabelledDomain | UnlabelledDomain:
    if config.test is not None:
        return _test_domain(config.test, source, "test data", download=download)
    if config.target is not None:
        return target
    # Without a target the honest test data is the part of the source that training does not see.
    training = config.recipe().training
    _, validation = source_split(source, training)
    return validation or source


def _test_domain(
    spec: str, source: LabelledDomain, what: str, *, download: bool
) -> LabelledDomain | UnlabelledDomain:
    """Data in the source's format, with classes that the source has too."""
    shape = source.inputs.shape
    image_format = ImageFormat(size=shape[1], channels=shape[0]) if source.inputs.kind == "images" else None
    test = load_domain(spec, image_format=image_format, download=download)
    if test.inputs.shape != shape:
        raise InvalidInputError(
            f"{what}: expected {source.inputs.kind} of the source's shape {shape}, got {test.inputs.shape} "
            f"({test.name!r})"
        )
    if isinstance(test, LabelledDomain):
        test.labels_among(source.classes)
    return test


def _task_title(folder: RunFolder) -> str:
    config = folder.read_config()
    return f"{config['source']} → {config['test'] or config['target'] or 'no target'}"
