"""The whole path of a run, read from top to bottom: data, training, predictions, metrics, report."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from shiftcal.core.errors import InvalidInputError, OutputError
from shiftcal.core.files import check_writable_folder
from shiftcal.core.folder_lock import folder_lock
from shiftcal.core.processes import is_main_process
from shiftcal.data.pseudo_label_rounds import load_pseudo_label_rounds
from shiftcal.runs.config import RunConfig
from shiftcal.runs.evaluation import verdict_on_sets
from shiftcal.runs.folder import RunFolder
from shiftcal.runs.life_cycle import carry_out_run, check_same_content, check_same_options
from shiftcal.runs.predictions import load_predictions
from shiftcal.runs.reporting import RunContents, write_report
from shiftcal.runs.run_data import LoadedData, load_data
from shiftcal.runs.text_files import reading
from shiftcal.training.checkpoint import load_checkpoint
from shiftcal.training.fallback import fit_with_fallback


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
        OutputError: the folder holds something else, is in use, or was made from other data or options.
        CheckpointError: the run in the folder is damaged.
        TrainingInterrupted: a signal came; `resume` goes on from there.
    """
    config.recipe()
    folder = RunFolder(out)
    if not is_main_process():
        if not folder.is_finished:
            _train(config, folder, load_data(config, download=download), resume=resume, learning_curve=learning_curve)
        return folder
    check_run_folder(folder, resume=resume)
    with folder_lock(folder.path):
        check_run_folder(folder, resume=resume)  # another process may have been here since
        if folder.is_started:
            check_same_options(config, folder)
        data = load_data(config, download=download)
        if folder.is_finished:
            check_finished_run(config, data, folder)
        else:
            _train(config, folder, data, resume=resume, learning_curve=learning_curve)
        if not folder.report.exists():
            report_run(folder)
    return folder


def _train(config: RunConfig, folder: RunFolder, data: LoadedData, *, resume: bool, learning_curve: bool) -> None:
    fit = partial(fit_with_fallback, fallback=config.fallback, resume=resume, after_epoch=folder.write_history)
    carry_out_run(folder, config, data, fit, learning_curve=learning_curve)


def check_run_folder(folder: RunFolder, *, resume: bool) -> None:
    """Raise `OutputError` if the folder can't take a new run, or the run that is to be resumed."""
    check_writable_folder(folder.path)
    if folder.is_started and not resume:
        raise OutputError(f"{str(folder.path)!r} already holds a run; choose another folder, or add --resume")
    folder.check_no_other_files()


def check_finished_run(config: RunConfig, data: LoadedData, folder: RunFolder) -> None:
    """Raise an error that says which, if data or options are not those of the finished run, or a file is damaged."""
    check_same_content(config, data, folder)
    model = load_checkpoint(folder.checkpoint)["model"]
    trained = model["asked_for"] or model["recipe"]
    written = folder.read_config()
    if any(written.get(key) != value for key, value in trained.items()):
        raise OutputError(f"{str(folder.config)!r} is not the configuration of the model beside it: it was changed")
    read_contents(folder)


def report_run(folder: RunFolder) -> None:
    """Make the report of one run from its folder."""
    contents = read_contents(folder)
    write_report([contents], folder.report, title=f"{contents.name}: {_task_title(folder)}")


def read_contents(folder: RunFolder) -> RunContents:
    """What a report shows of a run, from its files alone.

    Raises:
        InvalidInputError: the run is not finished, or one of its files is damaged.
        DataUnavailableError: one of its files is not there.
    """
    config = folder.read_config()
    if not folder.is_finished:
        raise InvalidInputError(f"the run in {str(folder.path)!r} is not finished; go on with --resume")
    findings = folder.read_findings()
    about_sets = verdict_on_sets(folder.read_metrics()["target"])
    card = folder.read_card()
    further = (about_sets, card.get("columns_used"))
    verdicts = (*findings.verdicts(), *(sentence for sentence in further if sentence is not None))
    with reading(folder.config):
        name = config["method"] + (f" + {config['calibrator']}" if config["calibrator"] else "")
        if findings.fell_back:
            name = f"{config['method']}, fell back to the source alone"
    target = load_predictions(folder.target_predictions)
    rounds = None
    if folder.pseudo_labels.is_file():
        rounds = load_pseudo_label_rounds(folder.pseudo_labels, len(target.classes))
    return RunContents(
        name=name,
        card={"configuration": config, **card},
        verdicts=verdicts,
        history=folder.read_history(),
        source=load_predictions(folder.source_predictions),
        target=target,
        pseudo_labels=rounds,
        learning_curve=folder.read_learning_curve(),
    )


def _task_title(folder: RunFolder) -> str:
    config = folder.read_config()
    with reading(folder.config):
        return f"{config['source']} → {config['test'] or config['target'] or 'no target'}"
