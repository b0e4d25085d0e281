"""From a problem and a recipe to a fitted model."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from shiftcal.core.errors import CheckpointError, InvalidInputError
from shiftcal.core.processes import is_main_process
from shiftcal.data.batches import ShiftProblem
from shiftcal.data.domains import LabelledDomain
from shiftcal.data.inputs import Inputs
from shiftcal.methods.base import Outputs
from shiftcal.methods.networks.backbones import InputStatistics, build_backbone, resolve_backbone
from shiftcal.methods.networks.classifiers import Blueprint, Classifier
from shiftcal.metrics import accuracy, negative_log_likelihood
from shiftcal.target.clusters import ordinary_for_constant
from shiftcal.training.checkpoint import CHECKPOINT_FILE, WAITING, load_checkpoint
from shiftcal.training.fabric import launched_fabric, own_random_state, synchronized_batch_norm
from shiftcal.training.fitted_model import FittedModel, check_held_out, source_split
from shiftcal.training.frozen_backbone import FrozenBackbone
from shiftcal.training.recipe import Recipe, decisive
from shiftcal.training.saved_model import load_model, save_model
from shiftcal.training.trainer import Predict, Trainer, Watch
from shiftcal.training.training_progress import EpochRecord

if TYPE_CHECKING:
    from lightning_fabric import Fabric

_MOST_ROWS_FOR_STATISTICS = 2_000
Calibrate = Callable[[FittedModel, ShiftProblem], FittedModel]


def fit_model(
    problem: ShiftProblem,
    recipe: Recipe,
    *,
    checkpoint: Path | None = None,
    resume: bool = False,
    after_epoch: Callable[[list[EpochRecord]], None] = lambda _: None,
    watch: Watch | None = None,
    calibrate: Calibrate = FittedModel.calibrated,
) -> FittedModel:
    """Train on a problem, then fit the calibrator.

    Args:
        problem: labelled source and unlabelled target.
        recipe: method, calibrator, backbone and training options.
        checkpoint: where to keep the state of training, so that it can be interrupted.
        resume: go on from that state if there is one.
        after_epoch: called in the main process with the history so far.
        watch: called in every process after each epoch, see `Trainer.run`; it has no part in the result.
        calibrate: fits the calibrator of the trained model, for callers who want what it learns from too.

    Raises:
        TrainingInterrupted: a signal came; the state is in the checkpoint.
    """
    training = recipe.training
    given, frozen = problem, None
    if recipe.freeze_backbone:
        frozen = FrozenBackbone.of(recipe, given.source.inputs.shape)
        problem = frozen.freeze(given, num_workers=training.num_workers)
        watch = _watching_features(watch, frozen)
    train_part, validation = source_split(problem.source, training)
    if recipe.calibrator is not None and recipe.calibrator.needs_held_out:
        check_held_out(recipe, validation)
    recipe = replace(
        recipe,
        backbone=resolve_backbone(recipe.backbone, problem.source.inputs.shape),
        training=replace(training, epochs=training.resolved_epochs(len(train_part))),
    )
    resumes = resume and checkpoint is not None and checkpoint.exists()
    started = time.monotonic()
    with launched_fabric(training) as fabric, own_random_state(training.random_state):
        # A run that goes on has all weights in its own checkpoint.
        initial = _Initial() if resumes else _initial_classifier(given.source, recipe, frozen)
        trainer = _prepared_trainer(replace(problem, source=train_part), validation, recipe, fabric, initial)
        if resumes:
            assert checkpoint is not None
            state = _training_state(checkpoint, recipe, frozen)
            if state is None:
                own_backbone = None if isinstance(recipe.backbone, str) else recipe.backbone
                return load_model(checkpoint, backbone=own_backbone, waiting=True)
            trainer.restore(state)

        def snapshot() -> FittedModel:
            return FittedModel(
                recipe=recipe,
                network=trainer.whole_predictor(),
                input_shape=given.source.inputs.shape,
                classes=problem.source.classes,
                has_target=problem.target is not None,
                num_target_rows=0 if problem.target is None else len(problem.target),
                encoder=given.source.inputs.encoder,
                frozen_backbone=frozen,
                calibrator_state=None,
                history=tuple(trainer.progress.history),
                training_seconds=time.monotonic() - started,
            )

        def save(state: dict[str, Any]) -> None:
            model = snapshot()
            if checkpoint is not None and is_main_process():
                save_model(model, checkpoint, training=state)

        def report_epoch(history: list[EpochRecord]) -> None:
            if is_main_process():
                after_epoch(history)

        trainer.run(
            validate=lambda outputs: _validation_record(outputs, validation),
            save=None if checkpoint is None else save,
            after_epoch=report_epoch,
            watch=watch,
        )
        trainer.finish()
        fitted = replace(snapshot(), pseudo_labels=trainer.progress.pseudo_label_rounds)
    return calibrate(fitted, given)


def _watching_features(watch: Watch | None, frozen: FrozenBackbone) -> Watch | None:
    """The same watch on pictures, of which the network in training is given the features."""
    if watch is None:
        return None

    def watch_features(epoch: int, predict: Predict) -> None:
        watch(epoch, lambda pictures: predict(frozen.stored(pictures)))

    return watch_features


class _Initial(NamedTuple):
    """The classifier that training starts from, if any."""

    weights: Mapping[str, Tensor] | None = None
    know_target: bool = False


def _initial_classifier(source: LabelledDomain, recipe: Recipe, frozen: FrozenBackbone | None) -> _Initial:
    """Backbone and head of the run that training is to start from."""
    run = recipe.training.initial_run
    if run is None:
        return _Initial()
    own_backbone = None if isinstance(recipe.backbone, str) else recipe.backbone
    model = load_model(Path(run) / CHECKPOINT_FILE, backbone=own_backbone)
    if (model.input_shape, model.classes) != (source.inputs.shape, source.classes):
        raise InvalidInputError(
            f"initial_run {run!r} takes inputs of shape {model.input_shape} for the classes {model.classes}; "
            f"expected a run on data like the source's: {source.inputs.shape} and {source.classes}"
        )
    if _key(model.frozen_backbone) != _key(frozen):
        raise InvalidInputError(f"initial_run {run!r}: expected a run with the same frozen backbone, or both without")
    classifier = next((module for module in model.network.modules() if isinstance(module, Classifier)), None)
    if classifier is None:
        raise InvalidInputError(f"initial_run {run!r}: expected a run of a method that trains a classifier")
    return _Initial(classifier.weights(), model.recipe.method.needs_target)


def _key(frozen: FrozenBackbone | None) -> str | None:
    return None if frozen is None else frozen.key


def _prepared_trainer(
    problem: ShiftProblem,
    held_out: LabelledDomain | None,
    recipe: Recipe,
    fabric: Fabric,
    initial: _Initial,
) -> Trainer:
    source = problem.source
    statistics = _input_statistics(source.inputs, recipe.training.random_state)
    blueprint = Blueprint(
        lambda: build_backbone(recipe.trained_backbone, source.inputs.shape, statistics),
        len(source.classes),
        has_target=problem.target is not None,
        num_target_rows=0 if problem.target is None else len(problem.target),
        initial_weights=initial.weights,
        initial_weights_know_target=initial.know_target,
    )
    network = synchronized_batch_norm(fabric, recipe.method.build(blueprint))
    return Trainer(recipe.method, network, problem, held_out, recipe.training, fabric)


def _training_state(checkpoint: Path, recipe: Recipe, frozen: FrozenBackbone | None) -> Mapping[str, Any] | None:
    """Where training stands; None if it has ended and the checkpoint is its model."""
    content = load_checkpoint(checkpoint)
    then = content["model"]["asked_for"] or content["model"]["recipe"]
    if decisive(then) != decisive(recipe.as_plain()):
        raise CheckpointError(
            f"{str(checkpoint)!r} was made with other options; resume with the same ones, or start a new run\n"
            f"  then: {then}\n  now:  {recipe.as_plain()}"
        )
    plain_frozen = content["model"].get("frozen_backbone")
    if (None if plain_frozen is None else plain_frozen["key"]) != _key(frozen):
        raise CheckpointError(f"{str(checkpoint)!r} was made with other weights of the frozen backbone")
    state: Mapping[str, Any] | None = None if content["training"] == WAITING else content["training"]
    return state


def _input_statistics(inputs: Inputs, seed: int) -> InputStatistics:
    """Mean and deviation over (at most some thousands of) rows: per feature, or per channel of images."""
    count = min(len(inputs), _MOST_ROWS_FOR_STATISTICS)
    rows = np.sort(np.random.default_rng(seed).permutation(len(inputs))[:count]).astype(np.int64)
    dimensions = [0] if inputs.kind == "features" else [0, 2, 3]
    mean = square = torch.zeros(inputs.shape[0], dtype=torch.float64)
    # In parts: some thousands of large images at once would take gigabytes.
    for part in np.array_split(rows, math.ceil(count / 256)):
        values = inputs.fetch(part).double()
        mean = mean + values.mean(dim=dimensions) * (len(part) / count)
        square = square + values.square().mean(dim=dimensions) * (len(part) / count)
    deviation = (square - mean.square()).clamp_min(0).sqrt()
    # Inputs are of single precision: what deviates from its mean by less than they can show is constant.
    single = torch.finfo(torch.float32)
    deviation = ordinary_for_constant(deviation, least=(single.eps * mean.abs()).clamp_min(single.tiny))
    return InputStatistics(mean.float(), deviation.float())


def _validation_record(outputs: Outputs, validation: LabelledDomain | None) -> dict[str, float]:
    assert validation is not None
    probabilities = torch.softmax(outputs.logits.double(), dim=-1)
    return {
        "validation_accuracy": accuracy(probabilities, validation.labels),
        "validation_loss": negative_log_likelihood(probabilities, validation.labels),
    }
