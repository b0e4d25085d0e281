"""Models in checkpoints: written, and read without trust in what is there."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from shiftcal.core.errors import CheckpointError, InvalidInputError, shown
from shiftcal.data.encoders import encoder_from_plain
from shiftcal.data.pseudo_label_rounds import PseudoLabelRounds
from shiftcal.methods.networks.backbones import InputStatistics, build_backbone, without_pretrained
from shiftcal.methods.networks.classifiers import Blueprint
from shiftcal.target.findings import TargetFindings
from shiftcal.target.prediction_sets import Conformity
from shiftcal.training.checkpoint import WAITING, load_checkpoint, save_checkpoint
from shiftcal.training.fitted_model import FittedModel
from shiftcal.training.frozen_backbone import FrozenBackbone
from shiftcal.training.held_out import HeldOut
from shiftcal.training.recipe import Recipe


def save_model(model: FittedModel, path: Path, training: Mapping[str, Any] | str | None = None) -> None:
    """Write a checkpoint that `load_model` reads.

    Args:
        model: to be written.
        path: of the checkpoint.
        training: the state of a training that is not finished; `WAITING` if only other things of the run are not.
    """
    save_checkpoint({"model": _plain_model(model), "training": training}, path)


def load_model(path: Path, *, backbone: nn.Module | None = None, waiting: bool = False) -> FittedModel:
    """Read a model from a checkpoint.

    Args:
        path: of the checkpoint.
        backbone: the user's own module, if the model was trained with one.
        waiting: whether the run may still be going on with other things than training it.

    Raises:
        CheckpointError: the checkpoint is missing, damaged, unfinished or of another version.
    """
    content = load_checkpoint(path)
    plain = content["model"]
    if content["training"] is not None and not (waiting and content["training"] == WAITING):
        raise CheckpointError(f"the run of {str(path)!r} is not finished; go on with `shiftcal fit ... --resume`")
    if plain.get("own_backbone") and backbone is None:
        raise CheckpointError(
            f"the model was trained with a module of the user's own ({plain['recipe']['backbone']}); "
            "pass it again: load(path, backbone=module)"
        )
    try:
        return _model_from(plain, backbone)
    except (KeyError, TypeError, ValueError, AttributeError, RuntimeError) as error:
        # Weights of another shape, or an archive that somebody else put together.
        raise CheckpointError(f"{str(path)!r} does not fit its own configuration: {error}") from error


def _model_from(plain: Mapping[str, Any], backbone: nn.Module | None) -> FittedModel:
    """The model that `_plain_model` was called on."""
    recipe = _loaded_recipe(plain["recipe"], backbone)
    num_target_rows = plain["num_target_rows"]
    plain_frozen = plain.get("frozen_backbone")
    frozen = None if plain_frozen is None else FrozenBackbone.from_plain(plain_frozen, recipe)
    shape = tuple(plain["input_shape"]) if frozen is None else (frozen.feature_dim,)
    network = _network_without_weights(recipe, shape, len(plain["classes"]), plain["has_target"], num_target_rows)
    network.load_state_dict(plain["network"])
    rounds = plain["pseudo_labels"]
    return FittedModel(
        recipe=recipe,
        network=network,
        input_shape=tuple(plain["input_shape"]),
        classes=tuple(plain["classes"]),
        has_target=plain["has_target"],
        calibrator_state=plain["calibrator_state"],
        history=tuple(plain["history"]),
        training_seconds=plain["training_seconds"],
        findings=TargetFindings.from_plain(plain["findings"]),
        conformity=None if plain["conformity"] is None else Conformity(*plain["conformity"]),
        held_out=None if plain["held_out"] is None else HeldOut(**plain["held_out"]),
        pseudo_labels=None if rounds is None else PseudoLabelRounds.from_tensors(rounds),
        num_target_rows=num_target_rows,
        encoder=encoder_from_plain(plain["encoder"]),
        frozen_backbone=frozen,
        asked_for=None if plain["asked_for"] is None else _loaded_recipe(plain["asked_for"], backbone),
    )


def _loaded_recipe(plain: Mapping[str, Any], backbone: nn.Module | None) -> Recipe:
    # The machine that loads a model need not have the device that it was trained on.
    portable = {**plain, "training": {**plain["training"], "device": "auto"}}
    return Recipe.from_names(**portable | ({} if backbone is None else {"backbone": backbone}))


def _network_without_weights(
    recipe: Recipe, shape: tuple[int, ...], num_classes: int, has_target: bool, num_target_rows: int
) -> nn.Module:
    """A network of the right form; all that it is to know, pretrained weights included, is in the checkpoint."""
    backbone = without_pretrained(recipe.trained_backbone)
    statistics = InputStatistics(torch.zeros(shape[0]), torch.ones(shape[0]))
    blueprint = Blueprint(
        lambda: build_backbone(backbone, shape, statistics),
        num_classes,
        has_target,
        num_target_rows,
    )
    network: nn.Module = recipe.method.build(blueprint)
    return network


def _plain_model(model: FittedModel) -> dict[str, Any]:
    """The model as plain values and tensors, for a checkpoint."""
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
        "findings": model.findings.as_plain(),
        "conformity": None if model.conformity is None else list(model.conformity),
        "held_out": None if model.held_out is None else model.held_out._asdict(),
        "pseudo_labels": None if model.pseudo_labels is None else model.pseudo_labels.as_tensors(),
        "num_target_rows": model.num_target_rows,
        "encoder": None if model.encoder is None else model.encoder.as_plain(),
        "frozen_backbone": None if model.frozen_backbone is None else model.frozen_backbone.as_plain(),
        "asked_for": None if model.asked_for is None else model.asked_for.as_plain(),
    }


def _plain_labels(classes: tuple[Hashable, ...]) -> list[Any]:
    plain = [label.item() if isinstance(label, np.generic) else label for label in classes]
    strange = [label for label in plain if not _is_plain(label)]
    if strange:
        raise InvalidInputError(
            f"a model with class labels such as {shown(strange[0])} can't be saved; expected text, bytes, numbers or "
            "tuples of them"
        )
    return plain


def _is_plain(label: Any) -> bool:
    # Not isinstance: an Enum may be an int too, and its class is not in the file.
    return type(label) in (str, int, float, bool, bytes) or (type(label) is tuple and all(map(_is_plain, label)))
