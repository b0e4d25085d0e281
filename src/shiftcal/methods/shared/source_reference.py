"""A source reference: a second classifier that learns from the source alone, beside one that adapts to the target.

Features of images are learned along with pseudo-labels, and clusters of such features confirm whatever these say. The
reference labels and predicts nothing: an adapted classifier is judged in the clusters of its features.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from typing import Any

from torch.nn.functional import cross_entropy

from shiftcal.data.batches import Batch
from shiftcal.methods.base import Method, OptimizerPlan, Update
from shiftcal.methods.networks.classifiers import Blueprint, Classifier, frozen_statistics

REFERENCE = "reference"


def new_source_reference(blueprint: Blueprint) -> Classifier:
    """A classifier that starts from no weights that know a target."""
    return Classifier(
        replace(blueprint, initial_weights=None) if blueprint.initial_weights_know_target else blueprint
    )


def reference_plan(method: Method[Any], reference: Classifier | None) -> dict[str, OptimizerPlan]:
    """It is trained as the method trains its task network."""
    return {} if reference is None else {REFERENCE: method.optimizer_plan(reference.parameters())}


def with_reference(update: Update, reference: Classifier | None, batch: Batch) -> Update:
    """The update, and a step of the reference, if there is one, on the rows of a batch that are the source's own."""
    if reference is None:
        return update
    is_source = ~batch.is_pseudo
    # Of a single row there are no batch statistics.
    few = is_source.sum() < 2
    with frozen_statistics(reference) if few else nullcontext():
        logits, _ = reference(batch.source_inputs[is_source])
    loss = cross_entropy(logits, batch.source_labels[is_source])
    return replace(
        update, logged={**update.logged, "reference_loss": loss}, beside={**update.beside, REFERENCE: loss}
    )
