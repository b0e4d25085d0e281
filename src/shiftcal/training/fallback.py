"""Adaptation that may be given up: the adapted classifier, or one of the source alone, as the target speaks for them.

Adapting can make a classifier worse, and without labels nobody would notice. So a reference is trained beside it:
`source-only`, with the same calibrator. For both, agreement is measured between what the classifier says of the
target and the target's own clusters, which start from what it says (`shiftcal.target.estimators.cluster_agreement`).
A classifier that cuts across the clusters on more rows than the reference does, by a paired test with an error rate
of five in a hundred, is given up for the reference.

For images these are clusters of the reference's features: those that the adapted classifier has learned confirm what
it says. Where classes form no clusters nothing could tell good from harm, and self-training has nothing to rest on:
the adapted classifier is given up. Where the reference finds few of the classes on the target, clusters of absent
ones confirm whoever spreads its labels over all: they can speak against the adapted classifier, not for it. It is
kept, and a finding says that it could not be judged.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path

import torch
from scipy.special import bdtrc
from torch import Tensor
from torch.distributions import Categorical

from shiftcal.core import options
from shiftcal.core.processes import is_main_process
from shiftcal.data.batches import ShiftProblem
from shiftcal.methods.base import Method
from shiftcal.target.clusters import common_units, fit_clusters, unit_rows
from shiftcal.target.estimators.cluster_agreement import agrees_with_clusters
from shiftcal.target.estimators.combined import chance_corrected_purity
from shiftcal.target.findings import AdaptationCheck
from shiftcal.target.rule import TrustRule
from shiftcal.target.sampling import sampled_rows
from shiftcal.training.checkpoint import WAITING
from shiftcal.training.fabric import launched_fabric
from shiftcal.training.fit import fit_model
from shiftcal.training.fitted_model import FittedModel, sampled_domain, source_split
from shiftcal.training.recipe import Recipe
from shiftcal.training.saved_model import save_model
from shiftcal.training.trainer import Watch
from shiftcal.training.training_progress import EpochRecord

_REFERENCE = "source-only"
# Of giving up a classifier that agrees with the clusters as often as the reference.
_ERROR_RATE = 0.05
# Share of the classes, by their effective number, that the reference must find for a word in favour of adapting.
_LEAST_PRESENT = 0.5


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
        if not (fallback and recipe.method.needs_target) or model.findings.adaptation is not None:
            return model
        beside = None
        if checkpoint is not None:
            beside = reference_checkpoint(checkpoint)
            if is_main_process():
                # An interruption from now on costs nothing of what is done.
                save_model(model, checkpoint, training=WAITING)
        reference = fit_model(problem, _reference_recipe(recipe), checkpoint=beside, resume=resume)
    return _better(model, reference, problem)


def reference_checkpoint(checkpoint: Path) -> Path:
    """Where the state of the reference is kept while it is trained."""
    return checkpoint.with_name(f"reference_{checkpoint.name}")


def _reference_recipe(recipe: Recipe) -> Recipe:
    """The reference with the same backbone, calibrator, training and, where all methods have them, options."""
    shared = {field.name for field in fields(Method)}
    own = {name: value for name, value in options.as_dict(recipe.method).items() if name in shared}
    plain = {**recipe.as_plain(), "method": _REFERENCE, "method_options": own, "backbone": recipe.backbone}
    return Recipe.from_names(**plain)


def _better(adapted: FittedModel, reference: FittedModel, problem: ShiftProblem) -> FittedModel:
    check = check_adaptation(adapted, reference, problem)
    if not check.fell_back:
        return replace(adapted, findings=replace(adapted.findings, adaptation=check))
    return replace(
        reference,
        findings=replace(reference.findings, adaptation=check),
        asked_for=adapted.recipe,
        history=adapted.history,
        pseudo_labels=adapted.pseudo_labels,
        training_seconds=adapted.training_seconds + reference.training_seconds,
    )


def check_adaptation(adapted: FittedModel, reference: FittedModel, problem: ShiftProblem) -> AdaptationCheck:
    """Which of the two the target's clusters speak for."""
    assert problem.target is not None
    rule = TrustRule()
    source = sampled_domain(source_split(problem.source, reference.recipe.training)[0])
    inputs = problem.target.inputs.subset(sampled_rows(len(problem.target)))
    on_source, on_target = (reference.predict(rows, keep_inputs=True) for rows in (source.inputs, inputs))
    labels, features = torch.from_numpy(source.labels), on_target.structure.double()
    source_features = on_source.structure.double()
    units = common_units(source_features)
    target_rows, source_rows = unit_rows(features, units), unit_rows(source_features, units)
    judged = (adapted.judged_outputs(inputs)[0].double(), on_target.logits.double())
    agrees = [agrees_with_clusters(target_rows, logits, labels, rule) for logits in judged]
    source_clusters = fit_clusters(source_rows, torch.softmax(on_source.logits.double(), dim=-1))
    purity = chance_corrected_purity(source_rows, source_clusters, labels)
    p_value = paired_p_value(*agrees)
    forms_clusters = rule.forms_clusters(purity)
    fell_back = not forms_clusters or p_value < _ERROR_RATE
    present = effective_number(on_target.logits.argmax(dim=-1)) / effective_number(labels)
    return AdaptationCheck(
        adapted_agreement=float(agrees[0].double().mean()),
        source_agreement=float(agrees[1].double().mean()),
        p_value=p_value,
        could_judge=forms_clusters and (fell_back or present >= _LEAST_PRESENT),
        fell_back=fell_back,
    )


def effective_number(labels: Tensor) -> float:
    """Of the classes among labels (N,): exp of the entropy of their frequencies, K where K are equally frequent."""
    return float(Categorical(labels.bincount().double()).perplexity())


def paired_p_value(adapted: Tensor, reference: Tensor) -> float:
    """Exact one-sided McNemar test (N,) against (N,) of bool: small if the first is true less often than the second.

    Of the rows on which the two differ, as many or more than those on which the reference alone is true would be so
    by tossing a coin.
    """
    only_reference, only_adapted = int((reference & ~adapted).sum()), int((adapted & ~reference).sum())
    differing = only_reference + only_adapted
    return 1.0 if differing == 0 else float(bdtrc(only_reference - 1, differing, 0.5))
