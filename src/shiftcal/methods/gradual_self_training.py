"""Gradual self-training: the most source-like part of the target first, then more and more of it.

Kumar, Ma, Liang, "Understanding Self-Training for Gradual Domain Adaptation", ICML 2020: gradual
self-training with hard labels and regularisation, without the least confident tenth of the labels.

    loss    mean_{source and selected} cross_entropy(softmax(W (m * phi(x))), y), with random dropout masks m
    labels  y = argmax_c p_c, hard, for the surest 90 % of the target rows that are reached so far

The paper is given domains between source and target and goes through them in order, each time training on the labels
of one of them alone. Here there are none, so these are ours: target rows are ordered by a density ratio P_source /
P_target (logistic regression of the domain on the network's features, fitted anew for each epoch), the part that is
reached grows evenly from its most source-like rows to all of them, its labels are given anew for each epoch, and the
source stays in training. Dropout on the features stands for the paper's dropout before its last layer, besides the
weight decay that all methods have.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, dropout

from shiftcal.core.options import option
from shiftcal.data.batches import Batch, PseudoLabels
from shiftcal.functional.self_training import growing_portion, highest
from shiftcal.methods.base import TASK, TrainingView, Update
from shiftcal.methods.networks.classifiers import Classifier
from shiftcal.methods.source_only import SourceOnly
from shiftcal.target.density_ratios import density_ratio_estimator
from shiftcal.target.sampling import sampled_rows

# Rows of a domain that the order is learnt from: enough for a linear direction.
_MOST_ROWS_FITTED = 2_000


@dataclass(frozen=True, kw_only=True)
class GradualSelfTraining(SourceOnly):
    """Hard pseudo-labels for a part of the target that grows from its most source-like rows to all of them."""

    needs_target: ClassVar[bool] = True

    warmup_share: float = option(0.3, "share of the epochs on the source alone", at_least=0, below=1)
    first_portion: float = option(0.2, "of the target to reach at first", above=0, at_most=1)
    dropped_share: float = option(0.1, "of the part reached to leave out, the least confident", at_least=0, below=1)
    dropout_rate: float = option(0.5, "probability that a feature is dropped in training", at_least=0, below=1)

    def training_step(self, network: Classifier, batch: Batch) -> Iterator[Update]:
        """One step of cross-entropy with dropout."""
        features = dropout(network.backbone(batch.source_inputs), self.dropout_rate)
        loss = cross_entropy(network.head(features), batch.source_labels)
        yield Update(TASK, loss, {"task_loss": loss})

    def choose_pseudo_labels(self, network: Classifier, view: TrainingView) -> PseudoLabels | None:
        """None during the warm-up, then the confident rows of a growing part."""
        del network
        portion = growing_portion(
            view.epoch,
            view.num_epochs,
            warmup_share=self.warmup_share,
            first_portion=self.first_portion,
            last_portion=1.0,
        )
        if portion is None:
            return None
        target = view.target_outputs
        part = highest(source_log_ratio(view.source_outputs.features, target.features), portion)
        confidence, labels = torch.softmax(target.logits[part].double(), dim=-1).max(dim=-1)
        kept = highest(confidence, 1 - self.dropped_share)
        return PseudoLabels(part[kept].numpy(), labels[kept].numpy())


def source_log_ratio(source_features: Tensor, target_features: Tensor) -> Tensor:
    """log P_source / P_target of the target rows, from features (N, F) and (M, F): (M,)."""
    # One penalty for all: only the order of the rows is used, and cross-validation would take half an epoch's time.
    fitted = density_ratio_estimator("logistic", {"penalty": 0.1}).fit(_some(source_features), _some(target_features))
    # Not clipped, or the rows of domains that lie far apart would all be alike.
    return torch.from_numpy(fitted.log_ratio.unclipped(target_features.double().numpy()))


def _some(features: Tensor) -> Tensor:
    """At most some thousands of rows."""
    return features[sampled_rows(len(features), _MOST_ROWS_FITTED)]
