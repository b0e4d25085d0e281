"""What methods share that train on two views of unlabelled inputs: the views, one pass over them, the settings.

The source is what is labelled, the target what is not. Settings are those of FixMatch (Sohn et al., NeurIPS 2020),
which later methods took over: 7 target rows for each source row, SGD with Nesterov momentum, a step size of 0.03 that
falls as cos(7 pi t / 16), a moving average of the weights with decay 0.999 for prediction. Two things are the
engine's own: weight decay reaches biases and normalisation layers too (published code spares them), and the moving
average is shorter in the first steps. On a CPU a smaller `unlabelled_multiple` saves most of the time.

A weak view of features is the features themselves; in a strong one half of them are replaced by their source means.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from shiftcal.core.options import option
from shiftcal.data.batches import Batch
from shiftcal.methods.base import Accepted, OptimizerKind, Schedule
from shiftcal.methods.networks.classifiers import Classifier, DomainOutputs, classify_jointly, uses_batch_statistics
from shiftcal.methods.source_only import SourceOnly


class ViewOutputs(NamedTuple):
    """What a classifier gives for the views of a batch."""

    labelled: DomainOutputs
    """Of weak views of the source."""
    weak: DomainOutputs
    """Of weak views of the target, without gradients."""
    strong: DomainOutputs
    """Of strong views of the target."""
    weak_batch: Batch
    """The batch with the weak views in place of its inputs; its target rows are those of `weak`."""


def classify_views(
    network: Classifier, batch: Batch, *, weak_rows: Tensor | None = None, strong_rows: Tensor | None = None
) -> ViewOutputs:
    """Views of a batch, of all target rows or, by masks (N,), of those that each view is wanted of.

    They go in one pass, so that batch norm sees one mixture of them. Published code interleaves the rows of the views
    for that, since its devices take slices of the whole. Here every process has its own part of each view: they are
    put end to end, and taken apart at the same places. Without batch norm the pass of the weak views is one of its
    own, which saves their part of the backward pass, and rows of which a view is not wanted do not pass in it.
    """
    assert batch.target_inputs is not None
    views, is_mixture = batch.views, uses_batch_statistics(network)
    shown_weak, shown_strong = (None, None) if is_mixture else (weak_rows, strong_rows)
    labelled, weak = views.weak(batch.source_inputs), views.weak(batch.target_inputs, only=shown_weak)
    strong = views.strong(batch.target_inputs, missing=network.backbone.mean, only=shown_strong)
    if is_mixture:
        labelled_outputs, weak_outputs, strong_outputs = classify_jointly(network, labelled, weak, strong)
        weak_outputs = weak_outputs.detached()
        if weak_rows is not None:
            weak, weak_outputs = weak[weak_rows], weak_outputs.taken(weak_rows)
        if strong_rows is not None:
            strong_outputs = strong_outputs.taken(strong_rows)
    else:
        with torch.no_grad():
            (weak_outputs,) = classify_jointly(network, weak)
        labelled_outputs, strong_outputs = classify_jointly(network, labelled, strong)
    # Without its inputs, of which some rows would be copied for nothing.
    weak_batch = batch._replace(source_inputs=labelled, target_inputs=None)
    weak_batch = weak_batch if weak_rows is None else weak_batch.with_target_rows(weak_rows)
    return ViewOutputs(labelled_outputs, weak_outputs, strong_outputs, weak_batch._replace(target_inputs=weak))


def accepted_labels(batch: Batch, probabilities: Tensor, kept: Tensor) -> Accepted:
    """The pseudo-labels that a step keeps, of the probabilities (N, C) of all target rows of its batch."""
    assert batch.target_rows is not None
    confidence, labels = probabilities[kept].max(dim=-1)
    return Accepted(batch.target_rows[kept], labels, confidence)


@dataclass(frozen=True, kw_only=True)
class ConsistencySettings:
    """Options of methods whose predictions on weak views supervise strong ones."""

    needs_target: ClassVar[bool] = True

    learning_rate: float = option(0.03, "step size of the task network", above=0)
    optimizer: OptimizerKind = option("sgd", "adamw, or sgd with Nesterov momentum 0.9")
    schedule: Schedule = option("cosine-7/16", "fall of the step sizes; as published, to a fifth")
    ema_decay: float = option(0.999, "of the average of the weights that predicts; 0: off", at_least=0, below=1)
    unlabelled_weight: float = option(1.0, "w, of the loss on the target", at_least=0)
    unlabelled_multiple: int = option(7, "target rows for each source row of a batch", at_least=1, at_most=100)

    @property
    def target_multiple(self) -> int:
        """As the option says."""
        return self.unlabelled_multiple


@dataclass(frozen=True, kw_only=True)
class ConsistencyMethod(ConsistencySettings, SourceOnly):
    """Base of those that train a classifier and nothing else."""
