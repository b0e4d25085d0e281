"""AdaMatch: consistency under domain shift, with what is sure measured by the source and classes aligned with it.

Berthelot, Roelofs, Sohn, Carlini, Kurakin, "AdaMatch: A Unified Approach to Semi-Supervised Learning and Domain
Adaptation", ICLR 2022, section 3:

    loss = mean_source ( cross_entropy(z_s(weak x), y) + cross_entropy(z_s(strong x), y) ) / 2
         + w mu(t) mean_target 1[ max q >= c ] cross_entropy( softmax(z(strong x)), argmax q )
    z_s  = u z' + (1 - u) z,  u uniform in [0, 1] for each logit     (random logit interpolation)
    q    = softmax(z(weak x)) p_source / p_target, normalised        (distribution alignment)
    c    = threshold mean_source max softmax(z_s(weak x))            (relative confidence threshold)
    mu   = 1/2 - cos( min(pi, 2 pi t) ) / 2,  t the share of training that lies behind

z is of one pass over all views of both domains, z' of one over the source alone, of which batch norm keeps nothing.
Without batch norm the two are the same and the second pass is left out. p_source is a moving mean of predictions on
the source, p_target their mean on the target over the last 128 steps; both start uniform, as in the authors' code, as
do threshold 0.9, weight decay 1e-3 and 3 target rows for each source row. Their step size falls to a quarter, here to
a fifth, and their momentum is not Nesterov's. Views and other settings: `shiftcal.methods.shared.consistency`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from shiftcal.core.options import option
from shiftcal.core.processes import mean_over_processes
from shiftcal.data.batches import Batch
from shiftcal.functional.consistency import align_probabilities, consistency_loss, pseudo_label_record
from shiftcal.functional.ramps import cosine_ramp
from shiftcal.methods.base import TASK, Update
from shiftcal.methods.networks.classifiers import (
    Blueprint,
    Classifier,
    classify_jointly,
    untracked_statistics,
    uses_batch_statistics,
)
from shiftcal.methods.shared.consistency import ConsistencyMethod, accepted_labels

NUM_REMEMBERED = 128
SOURCE_MOMENTUM = 0.999


class AligningClassifier(Classifier):
    """A classifier that knows how often it predicted each class, on the source and on the target."""

    source_mean: Tensor
    target_means: Tensor
    step: Tensor

    def __init__(self, blueprint: Blueprint) -> None:
        super().__init__(blueprint)
        uniform = torch.full((blueprint.num_classes,), 1 / blueprint.num_classes)
        self.register_buffer("source_mean", uniform)
        self.register_buffer("target_means", uniform.repeat(NUM_REMEMBERED, 1))
        self.register_buffer("step", torch.zeros((), dtype=torch.int64))

    def aligned(self, source_probabilities: Tensor, target_probabilities: Tensor) -> Tensor:
        """Take notice of the predictions of a step, and give those on the target (N, C) with the source's classes."""
        self.source_mean.lerp_(mean_over_processes(source_probabilities.mean(dim=0)), 1 - SOURCE_MOMENTUM)
        self.target_means[self.step % NUM_REMEMBERED] = mean_over_processes(target_probabilities.mean(dim=0))
        self.step += 1
        return align_probabilities(target_probabilities, self.source_mean, self.target_means.mean(dim=0))


@dataclass(frozen=True, kw_only=True)
class AdaMatch(ConsistencyMethod):
    """Consistency with aligned class distributions, a relative threshold and interpolated source logits."""

    weight_decay: float = option(1e-3, "weight decay of all networks", at_least=0)
    threshold: float = option(0.9, "least confidence of a pseudo-label, of that on the source", at_least=0, at_most=1)
    unlabelled_multiple: int = option(3, "target rows for each source row of a batch", at_least=1, at_most=100)

    def build(self, blueprint: Blueprint) -> AligningClassifier:
        """A classifier with a memory of class distributions."""
        return AligningClassifier(blueprint)

    def training_step(self, network: Classifier, batch: Batch) -> Iterator[Update]:
        """One step on labels and aligned pseudo-labels."""
        assert isinstance(network, AligningClassifier)
        source_logits, target_weak, target_strong = self._logits(network, batch)
        source_weak, source_strong = source_logits.chunk(2)
        sure = torch.softmax(source_weak.detach(), dim=-1)
        threshold = self.threshold * mean_over_processes(sure.amax(dim=-1).mean())
        probabilities = network.aligned(sure, torch.softmax(target_weak.detach(), dim=-1))
        labels = batch.source_labels
        task_loss = (cross_entropy(source_weak, labels) + cross_entropy(source_strong, labels)) / 2
        agreement_loss, kept = consistency_loss(probabilities, target_strong, threshold)
        yield Update(
            TASK,
            task_loss + self.unlabelled_weight * cosine_ramp(batch.progress) * agreement_loss,
            {"task_loss": task_loss, "consistency_loss": agreement_loss, **pseudo_label_record(probabilities, kept)},
            accepted_labels(batch, probabilities, kept),
        )

    def _logits(self, network: Classifier, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        """Of the source's views, weak then strong, interpolated; of the target's weak; of its strong views."""
        assert batch.target_inputs is not None
        views, missing = batch.views, network.backbone.mean
        source = torch.cat([views.weak(batch.source_inputs), views.strong(batch.source_inputs, missing=missing)])
        weak, strong = views.weak(batch.target_inputs), views.strong(batch.target_inputs, missing=missing)
        joint, target_weak, target_strong = (part.logits for part in classify_jointly(network, source, weak, strong))
        if uses_batch_statistics(network):
            with untracked_statistics(network):
                alone, _ = network(source)
            joint = torch.lerp(joint, alone, torch.rand_like(joint))
        return joint, target_weak, target_strong
