"""Adaptation that may be given up: the adapted classifier, or one of the source alone, as the target speaks for them.

Adapting can make a classifier worse, and without labels nobody would notice. So a reference is trained beside it:
`drl`, which has the very network of `source-only` and probabilities that can be trusted. For both the agreement is
measured between what the classifier says of the target and the target's own clusters, which start from what it says
(`shiftcal.target.clusters`). A classifier that cuts across the clusters more often than the reference does is
given up for the reference.

For images these are clusters of the reference's features: those that the adapted classifier has learned confirm what
it says. Where classes form no clusters the agreement says nothing. Then the adapted classifier is kept, and a finding
says that it could not be judged.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from shiftcal.core import options
from shiftcal.core.processes import is_main_process
from shiftcal.data.batches import ShiftProblem
from shiftcal.data.inputs import Inputs
from shiftcal.methods.base import Method
from shiftcal.methods.drl import RobustNetwork
from shiftcal.target.caution import belief_in_clusters
from shiftcal.target.clusters import cluster_by_predictions, cluster_posteriors
from shiftcal.target.domain_auc import evenly_spread
from shiftcal.training.checkpoint import WAITING
from shiftcal.training.fabric import launched_fabric
from shiftcal.training.fit import fit_model
from shiftcal.training.fitted_model import FittedModel
from shiftcal.training.recipe import Recipe
from shiftcal.training.trainer import EpochRecord, Watch

_REFERENCE = "drl"
_MOST_ROWS = 20_000
_LEAST_BELIEF = 0.5


def fit_with_fallback(
    problem: ShiftProblem,
    recipe: Recipe,
    *,
    fallback: bool = True,
    checkpoint: Path | None = None,
    resume: bool = False,
    after_epoch: Callable[[list[EpochRecord]], None] = lambda _: None,
    watch: Watch | None = None,
) -> FittedModel:
    """As `fit_model`; for a method that adapts, and with `fallback`, the reference where that is better.

    The findings of the model say what was compared and how it ended. Training can be interrupted and resumed in both
    parts; the state of the reference is kept beside the checkpoint.
    """
    with launched_fabric(recipe.training):
        model = fit_model(problem, recipe, checkpoint=checkpoint, resume=resume, after_epoch=after_epoch, watch=watch)
        if not (fallback and recipe.method.needs_target) or "fell_back" in model.findings:
            return model
        beside = None
        if checkpoint is not None:
            beside = reference_checkpoint(checkpoint)
            if is_main_process():
                # An interruption from now on costs nothing of what is done.
                model.save(checkpoint, training=WAITING)
        reference = fit_model(problem, _reference_recipe(recipe), checkpoint=beside, resume=resume)
    return _better(model, reference, problem)


def reference_checkpoint(checkpoint: Path) -> Path:
    """Where the state of the reference is kept while it is trained."""
    return checkpoint.with_name(f"reference_{checkpoint.name}")


def _reference_recipe(recipe: Recipe) -> Recipe:
    """The reference with the same backbone, training and, where all methods have them, options."""
    shared = {field.name for field in fields(Method)}
    own = {name: value for name, value in options.as_dict(recipe.method).items() if name in shared}
    return Recipe.from_names(
        _REFERENCE, backbone=recipe.backbone, method_options=own, training=options.as_dict(recipe.training)
    )


def _better(adapted: FittedModel, reference: FittedModel, problem: ShiftProblem) -> FittedModel:
    assert problem.target is not None
    of_adapted, of_reference = agreements(adapted, reference, problem.target.inputs)
    purity, compact = (reference.findings[f"cluster_{name}"] for name in ("purity", "compactness"))
    can_tell = belief_in_clusters(purity, compact) >= _LEAST_BELIEF
    falls_back = can_tell and of_adapted < of_reference
    findings: dict[str, Any] = {
        "adapted_agreement": of_adapted,
        "source_only_agreement": of_reference,
        "could_judge_adaptation": float(can_tell),
        "fell_back": float(falls_back),
    }
    if not falls_back:
        return replace(adapted, findings={**adapted.findings, **findings})
    return replace(
        reference,
        findings={**reference.findings, **findings},
        asked_for=adapted.recipe,
        history=adapted.history,
        pseudo_labels=adapted.pseudo_labels,
        training_seconds=adapted.training_seconds + reference.training_seconds,
    )


def agreements(adapted: FittedModel, reference: FittedModel, target: Inputs) -> tuple[float, float]:
    """How often each of the two agrees with the clusters of the target."""
    inputs = target.subset(evenly_spread(len(target), _MOST_ROWS).numpy())
    outputs = [model.predict(inputs) for model in (adapted, reference)]
    is_image = inputs.kind == "images"
    representation = outputs[1].features.double() if is_image else _representation(reference, inputs)
    of_adapted, of_reference = (
        agreement_with_clusters(representation, torch.softmax(output.logits.double(), dim=-1)) for output in outputs
    )
    return of_adapted, of_reference


def agreement_with_clusters(representation: Tensor, probabilities: Tensor) -> float:
    """How often predictions (N, C) agree with clusters of (N, F) representations that start from them."""
    clusters = cluster_by_predictions(representation, probabilities)
    posteriors = cluster_posteriors(representation, clusters)
    return float((posteriors.argmax(dim=-1) == probabilities.argmax(dim=-1)).double().mean())


def _representation(model: FittedModel, inputs: Inputs) -> Tensor:
    """Features as the reference looks for clusters in them."""
    assert isinstance(model.network, RobustNetwork)
    backbone = model.network.task.backbone
    values = inputs.fetch(np.arange(len(inputs), dtype=np.int64)).to(backbone.mean.device)
    return backbone.representation(values, values).double().cpu()
