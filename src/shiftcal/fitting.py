"""From a problem and a recipe to a fitted model, and from there to predictions and back from disk."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from lightning_fabric import Fabric
from torch import Tensor, nn

from shiftcal import options
from shiftcal.calibrators import calibrator_class
from shiftcal.calibrators.base import CalibrationData, Calibrator, State
from shiftcal.data.batches import ShiftProblem
from shiftcal.data.domains import LabelledDomain, UnlabelledDomain
from shiftcal.data.inputs import Inputs
from shiftcal.data.splits import hold_out
from shiftcal.errors import CheckpointError, InvalidInputError
from shiftcal.functional.conformal import conformity_scores
from shiftcal.methods import method_class
from shiftcal.methods.base import Method, Outputs
from shiftcal.metrics import accuracy, negative_log_likelihood
from shiftcal.models.backbones import (
    PRETRAINED_SUFFIX,
    BackboneSpec,
    InputStatistics,
    build_backbone,
    resolve_backbone,
)
from shiftcal.models.networks import Blueprint
from shiftcal.processes import is_main_process
from shiftcal.training.checkpoint import load_checkpoint, save_checkpoint
from shiftcal.training.fabric import (
    launched_fabric,
    own_random_state,
    prediction_device,
    synchronized_batch_norm,
)
from shiftcal.training.inference import predict_inputs
from shiftcal.training.options import WITHOUT_INFLUENCE, TrainingOptions
from shiftcal.training.trainer import EpochRecord, Trainer

_MOST_ROWS_FOR_STATISTICS = 2_000


@dataclass(frozen=True)
class Recipe:
    """Everything that decides about a fit but the data."""

    method_name: str
    method: Method[Any]
    calibrator_name: str | None
    calibrator: Calibrator | None
    backbone: BackboneSpec
    training: TrainingOptions

    @classmethod
    def from_names(
        cls,
        method: str = "drl",
        calibrator: str | None = None,
        backbone: BackboneSpec = "auto",
        method_options: Mapping[str, Any] | None = None,
        training: Mapping[str, Any] | None = None,
    ) -> Recipe:
        """A recipe from names and plain values, each of them checked."""
        for what, name in (("method", method), ("calibrator", calibrator)):
            if not isinstance(name, str | None) or (what == "method" and name is None):
                raise InvalidInputError(f"{what} must be a name. Got {name!r} instead.")
        if not isinstance(backbone, (str, nn.Module)):
            raise InvalidInputError(f"backbone must be a name or an nn.Module. Got {backbone!r} instead.")
        return cls(
            method,
            options.build(method_class(method), method_options, owner=f"method {method!r}"),
            calibrator,
            None if calibrator is None else calibrator_class(calibrator)(),
            backbone,
            options.build(TrainingOptions, training, owner="training"),
        )

    def with_calibrator(self, name: str | None) -> Recipe:
        """The same with another calibrator."""
        return replace(self, calibrator_name=name, calibrator=None if name is None else calibrator_class(name)())

    def as_plain(self) -> dict[str, Any]:
        """Plain values from which `from_names` makes the same recipe (of a user's own module, its class's name)."""
        return {
            "method": self.method_name,
            "calibrator": self.calibrator_name,
            "backbone": self.backbone if isinstance(self.backbone, str) else type(self.backbone).__name__,
            "method_options": options.as_dict(self.method),
            "training": options.as_dict(self.training),
        }


class Conformity(NamedTuple):
    """How strange the model finds the labels of held-out source rows, and how much these count on the target."""

    scores: Tensor
    """(N,) as of `shiftcal.functional.conformal`."""
    weights: Tensor
    """(N,) P_target / P_source."""


@dataclass(frozen=True)
class FittedModel:
    """A trained network with all that prediction needs."""

    recipe: Recipe
    network: nn.Module
    input_shape: tuple[int, ...]
    classes: tuple[Hashable, ...]
    has_target: bool
    calibrator_state: State | None
    history: tuple[EpochRecord, ...]
    training_seconds: float
    findings: Mapping[str, float] = field(default_factory=dict)
    """What the method found out about the target, such as the accuracy to be expected there."""
    conformity: Conformity | None = None
    """What prediction sets are made from; None if no source data was held out."""

    def predict(self, inputs: Inputs) -> Outputs:
        """Outputs for all rows, with calibrated logits."""
        if inputs.shape != self.input_shape:
            raise InvalidInputError(f"expected inputs of shape {self.input_shape}, got {inputs.shape}")
        outputs = self._raw_outputs(inputs)
        calibrator = self.recipe.calibrator
        if calibrator is None or self.calibrator_state is None:
            return outputs
        return outputs._replace(logits=calibrator.calibrate(outputs, self.calibrator_state))

    def with_calibrator(
        self, name: str | None, validation: LabelledDomain | None, target: UnlabelledDomain | None
    ) -> FittedModel:
        """The same network with another calibrator, fitted to held-out source data and to the target."""
        recipe = self.recipe.with_calibrator(name)
        if recipe.calibrator is None:
            return replace(self, recipe=recipe, calibrator_state=None)._with_conformity(validation)
        validation = check_held_out(recipe, validation)
        data = CalibrationData(
            predict=self._raw_outputs,
            source_inputs=validation.inputs,
            source_labels=torch.from_numpy(validation.labels),
            target_inputs=None if target is None else target.inputs,
            num_classes=len(self.classes),
            seed=recipe.training.random_state,
        )
        state = recipe.calibrator.fit(data)
        return replace(self, recipe=recipe, calibrator_state=state)._with_conformity(validation)

    def _with_conformity(self, validation: LabelledDomain | None) -> FittedModel:
        if validation is None:
            return replace(self, conformity=None)
        outputs = self.predict(validation.inputs)
        probabilities = torch.softmax(outputs.logits.double(), dim=-1)
        scores = conformity_scores(probabilities, torch.from_numpy(validation.labels))
        return replace(self, conformity=Conformity(scores, 1 / outputs.density_ratio.double()))

    def _raw_outputs(self, inputs: Inputs) -> Outputs:
        device = prediction_device(self.recipe.training.device)
        return predict_inputs(self.recipe.method, self.network.to(device), inputs, device=device)

    def save(self, path: Path) -> None:
        """Write a checkpoint that `load_model` reads."""
        save_checkpoint({"model": _plain_model(self), "training": None}, path)


def fit_model(
    problem: ShiftProblem,
    recipe: Recipe,
    *,
    checkpoint: Path | None = None,
    resume: bool = False,
    after_epoch: Callable[[list[EpochRecord]], None] = lambda _: None,
) -> FittedModel:
    """Train on a problem, then fit the calibrator.

    Args:
        problem: labelled source and unlabelled target.
        recipe: method, calibrator, backbone and training options.
        checkpoint: where to keep the state of training, so that it can be interrupted.
        resume: go on from that state if there is one.
        after_epoch: called in the main process with the history so far.

    Raises:
        TrainingInterrupted: a signal came; the state is in the checkpoint.
    """
    training = recipe.training
    train_part, validation = source_split(problem.source, training)
    if recipe.calibrator is not None:
        check_held_out(recipe, validation)
    recipe = replace(
        recipe,
        backbone=resolve_backbone(recipe.backbone, problem.source.inputs.shape),
        training=replace(training, epochs=training.resolved_epochs(len(train_part))),
    )
    started = time.monotonic()
    with launched_fabric(training) as fabric, own_random_state(training.random_state):
        trainer = _prepared_trainer(replace(problem, source=train_part), recipe, fabric)
        if resume and checkpoint is not None and checkpoint.exists():
            state = _training_state(checkpoint, recipe)
            if state is None:
                own_backbone = None if isinstance(recipe.backbone, str) else recipe.backbone
                return load_model(checkpoint, backbone=own_backbone)
            trainer.restore(state)

        def snapshot() -> FittedModel:
            return FittedModel(
                recipe=recipe,
                network=trainer.predictor,
                input_shape=problem.source.inputs.shape,
                classes=problem.source.classes,
                has_target=problem.target is not None,
                calibrator_state=None,
                history=tuple(trainer.progress.history),
                training_seconds=time.monotonic() - started,
            )

        def save(state: dict[str, Any]) -> None:
            if checkpoint is not None and is_main_process():
                save_checkpoint({"model": _plain_model(snapshot()), "training": state}, checkpoint)

        def report_epoch(history: list[EpochRecord]) -> None:
            if is_main_process():
                after_epoch(history)

        trainer.run(
            validation=None if validation is None else validation.inputs,
            validate=lambda outputs: _validation_record(outputs, validation),
            save=None if checkpoint is None else save,
            after_epoch=report_epoch,
        )
        findings = trainer.conclude(validation)
    fitted = replace(snapshot(), findings=findings)
    return fitted.with_calibrator(recipe.calibrator_name, validation, problem.target)


def source_split(source: LabelledDomain, training: TrainingOptions) -> tuple[LabelledDomain, LabelledDomain | None]:
    """The parts of the source that training uses and that it holds out: the same for every method and calibrator."""
    return hold_out(source, training.validation_fraction, training.random_state)


def check_held_out(recipe: Recipe, validation: LabelledDomain | None) -> LabelledDomain:
    """The held-out source data that the recipe's calibrator is fitted to.

    Raises:
        InvalidInputError: nothing was held out.
    """
    if validation is not None:
        return validation
    name, fraction = recipe.calibrator_name, recipe.training.validation_fraction
    raise InvalidInputError(
        f"calibrator {name!r} needs held-out source data and the source is too small to hold any out: "
        f"expected a class with at least {math.ceil(1 / fraction)} rows (or set a larger validation_fraction)"
        if fraction > 0
        else f"calibrator {name!r} needs held-out source data, but validation_fraction is 0"
    )


def load_model(path: Path, *, backbone: nn.Module | None = None) -> FittedModel:
    """Read a model from a checkpoint.

    Args:
        path: of the checkpoint.
        backbone: the user's own module, if the model was trained with one.

    Raises:
        CheckpointError: the checkpoint is missing, damaged, unfinished or of another version.
    """
    content = load_checkpoint(path)
    plain = content["model"]
    if content["training"] is not None:
        raise CheckpointError(f"the run of {str(path)!r} is not finished; go on with `shiftcal fit ... --resume`")
    if plain["own_backbone"] and backbone is None:
        raise CheckpointError(
            f"the model was trained with a module of the user's own ({plain['recipe']['backbone']}); "
            "pass it again: load(path, backbone=module)"
        )
    # The machine that loads a model need not have the device that it was trained on.
    plain["recipe"]["training"]["device"] = "auto"
    recipe = Recipe.from_names(**plain["recipe"] | ({} if backbone is None else {"backbone": backbone}))
    # The weights come from the checkpoint: pretrained ones are not fetched again.
    network = _new_network(recipe, plain, without_weights=True)
    try:
        network.load_state_dict(plain["network"])
    except RuntimeError as error:
        raise CheckpointError(f"{str(path)!r} does not fit its own configuration: {error}") from error
    return FittedModel(
        recipe=recipe,
        network=network,
        input_shape=tuple(plain["input_shape"]),
        classes=tuple(plain["classes"]),
        has_target=plain["has_target"],
        calibrator_state=plain["calibrator_state"],
        history=tuple(plain["history"]),
        training_seconds=plain["training_seconds"],
        findings=plain["findings"],
        conformity=None if plain["conformity"] is None else Conformity(*plain["conformity"]),
    )


def _prepared_trainer(problem: ShiftProblem, recipe: Recipe, fabric: Fabric) -> Trainer:
    plain = {
        "input_shape": problem.source.inputs.shape,
        "classes": problem.source.classes,
        "has_target": problem.target is not None,
    }
    statistics = _input_statistics(problem.source.inputs, recipe.training.random_state)
    network = synchronized_batch_norm(fabric, _new_network(recipe, plain, statistics=statistics))
    return Trainer(recipe.method, network, problem, recipe.training, fabric)


def _new_network(
    recipe: Recipe,
    plain: Mapping[str, Any],
    *,
    statistics: InputStatistics | None = None,
    without_weights: bool = False,
) -> nn.Module:
    shape = tuple(plain["input_shape"])
    known = statistics or InputStatistics(torch.zeros(shape[0]), torch.ones(shape[0]))
    backbone = recipe.backbone
    if without_weights and isinstance(backbone, str):
        backbone = backbone.removesuffix(PRETRAINED_SUFFIX)
    blueprint = Blueprint(lambda: build_backbone(backbone, shape, known), len(plain["classes"]), plain["has_target"])
    network: nn.Module = recipe.method.build(blueprint)
    return network


def _plain_model(model: FittedModel) -> dict[str, Any]:
    return {
        "recipe": model.recipe.as_plain(),
        "own_backbone": not isinstance(model.recipe.backbone, str),
        "network": {name: value.cpu() for name, value in model.network.state_dict().items()},
        "input_shape": list(model.input_shape),
        "classes": _plain_labels(model.classes),
        "has_target": model.has_target,
        "calibrator_state": model.calibrator_state,
        "history": [dict(record) for record in model.history],
        "training_seconds": model.training_seconds,
        "findings": dict(model.findings),
        "conformity": None if model.conformity is None else list(model.conformity),
    }


def _plain_labels(classes: tuple[Hashable, ...]) -> list[Any]:
    plain = [label.item() if isinstance(label, np.generic) else label for label in classes]
    strange = next((label for label in plain if not isinstance(label, (str, int, float, bool, bytes, tuple))), None)
    if strange is not None:
        raise InvalidInputError(
            f"a model with class labels such as {strange!r} can't be saved; expected text, numbers or tuples of them"
        )
    return plain


def _training_state(checkpoint: Path, recipe: Recipe) -> Mapping[str, Any] | None:
    """Where training stands; None if it has ended and the checkpoint is its model."""
    content = load_checkpoint(checkpoint)
    if _decisive(content["model"]["recipe"]) != _decisive(recipe.as_plain()):
        raise CheckpointError(
            f"{str(checkpoint)!r} was made with other options; resume with the same ones, or start a new run\n"
            f"  then: {content['model']['recipe']}\n  now:  {recipe.as_plain()}"
        )
    state: Mapping[str, Any] | None = content["training"]
    return state


def _decisive(plain: Mapping[str, Any]) -> dict[str, Any]:
    training = {key: value for key, value in plain["training"].items() if key not in WITHOUT_INFLUENCE}
    return {**plain, "training": training}


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
    # A constant feature carries nothing: leave its scale alone.
    deviation = torch.where(deviation > 1e-6, deviation, torch.ones_like(deviation))
    return InputStatistics(mean.float(), deviation.float())


def _validation_record(outputs: Outputs, validation: LabelledDomain | None) -> dict[str, float]:
    assert validation is not None
    probabilities = torch.softmax(outputs.logits.double(), dim=-1)
    return {
        "validation_accuracy": accuracy(probabilities, validation.labels),
        "validation_loss": negative_log_likelihood(probabilities, validation.labels),
    }
