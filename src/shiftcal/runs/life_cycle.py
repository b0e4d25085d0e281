"""The life of a run, alone or as a cell of a comparison: begun or gone on with, trained, predicted, evaluated."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import Any

from shiftcal.core.errors import InvalidInputError, OutputError
from shiftcal.core.processes import is_main_process
from shiftcal.data.domains import LabelledDomain
from shiftcal.data.pseudo_label_rounds import save_pseudo_label_rounds
from shiftcal.runs.config import RunConfig
from shiftcal.runs.evaluation import coverage_of_sets, judge_pseudo_labels, predict_domain, summarize
from shiftcal.runs.folder import RunFolder
from shiftcal.runs.learning_curve import LearningCurve
from shiftcal.runs.predictions import save_predictions
from shiftcal.runs.run_data import LoadedData
from shiftcal.runs.text_files import reading
from shiftcal.training.fallback import reference_checkpoint
from shiftcal.training.fitted_model import FittedModel, source_split
from shiftcal.training.recipe import Recipe, decisive

Fit = Callable[..., FittedModel]
# What a configuration may leave open; a run writes down what it found.
_RESOLVED = ("training.epochs", "image_size", "backbone")


def carry_out_run(
    folder: RunFolder,
    config: RunConfig,
    data: LoadedData,
    fit: Fit,
    *,
    learning_curve: bool = False,
    facts: Mapping[str, Any] | None = None,
) -> FittedModel:
    """Begin a run, or go on with the one in the folder, to its metrics.

    Args:
        folder: of the run; a run that fails before its first checkpoint leaves nothing there.
        config: what was asked for.
        data: of the run.
        fit: as `fit_model`, which gets the problem, the recipe, `checkpoint` and `watch`.
        learning_curve: evaluate the test data after each epoch too; the model is the same with and without.
        facts: for the card of the run.

    Raises:
        OutputError: the run in the folder was begun with other data or options.
        TrainingInterrupted: a signal came; the same call with a `fit` that resumes goes on from there.
    """
    config = data.resolved(config)
    recipe = config.recipe()
    watch = learning_curve_of(folder, data, recipe) if learning_curve else None
    with folder.nothing_left_on_failure() if is_main_process() else nullcontext():
        if is_main_process():
            begin_run(folder, config, data)
        model = fit(data.problem, recipe, checkpoint=folder.checkpoint, watch=watch)
        if is_main_process():
            finish_run(folder, model, data, config, facts=facts)
    return model


def begin_run(folder: RunFolder, config: RunConfig, data: LoadedData) -> None:
    """Note what a run is made from, or see that it is what the run in the folder was made from.

    Raises:
        OutputError: the run in the folder was begun with other data or options.
    """
    if folder.is_started:
        check_same_options(config, folder)
        check_same_content(config, data, folder)
    else:
        folder.remove_remains()
        folder.write_fingerprints(fingerprints_of(config, data))
        folder.write_config({**config.data(), **config.recipe().as_plain()})


def fingerprints_of(config: RunConfig, data: LoadedData) -> dict[str, str | None]:
    """Of the content of the data, and of that part of the configuration which the run does not resolve."""
    asked = decisive({**config.data(), **config.recipe().as_plain()})
    fixed = {key: value for key, value in asked.items() if key not in _RESOLVED}
    plain = json.dumps(fixed, sort_keys=True, default=str)
    return {"configuration": hashlib.sha256(plain.encode()).hexdigest(), **data.fingerprints}


def check_same_content(config: RunConfig, data: LoadedData, folder: RunFolder) -> None:
    """Raise `OutputError` if the data in the same places, or the configuration file of the run, has other content."""
    now, then = fingerprints_of(config, data), folder.read_fingerprints()
    changed = next((name for name in now if now[name] != then.get(name)), None)
    if changed is None:
        return
    where = config.data().get(changed)
    what = {
        "configuration": f"the configuration file {str(folder.config)!r}",
        "test": f"the test data {where or config.target or config.source!r}",
    }.get(changed, f"the {changed.replace('_', ' ')} data {where!r}")
    raise OutputError(
        f"{what} has other content than when the run in {str(folder.path)!r} was made, and results of both must not "
        "be mixed. Bring the old content back, choose another --out, or remove that folder."
    )


def check_same_options(config: RunConfig, folder: RunFolder) -> None:
    """Raise `OutputError` if the run in the folder was begun with other data or options than the configuration's."""
    wanted = decisive({**config.data(), **config.recipe().as_plain()})
    with reading(folder.config):
        found = decisive(folder.read_config())
    # What was left open is resolved by the run, the same way each time.
    left_open = {key for key in _RESOLVED if wanted[key] is None}
    name, _, width = str(wanted["backbone"]).partition("+")
    if name == "auto" and width == str(found.get("backbone")).partition("+")[2]:
        left_open.add("backbone")
    fixed = (key for key in wanted if key not in left_open)
    different = next((key for key in fixed if wanted[key] != found.get(key)), None)
    if different is not None:
        raise OutputError(
            f"{str(folder.path)!r} was made with another {different.split('.')[-1]}: {found.get(different)!r} then, "
            f"{wanted[different]!r} now. Give the same options, choose another --out, or remove that folder."
        )


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
                **model.findings.numbers(),
            },
        }
    )
