"""Confidence-regularised self-training: class-balanced, with labels or a network that are not to be too sure.

Zou, Yu, Liu, Kumar, Wang, "Confidence Regularized Self-Training", ICCV 2019: label and model regularisers.

    loss   mean_{source and selected} [ cross_entropy(y, softmax(z)) + 1[selected] weight r(softmax(z)) ]
    mrkld  r = -1/C sum_c log p_c,   mrent  r = sum_c p_c log p_c,   mrl2  r = sum_c p_c^2,   with y as in `cbst`
    lrent  r = 0, with soft labels  y_c proportional to (p_c / exp(-k_c))^(1 / weight)

The default weights of mrkld and lrent are those of the authors' scripts: 0.1 for mrkld stands there in the data set
and once more in the loss, so that it acts as 0.01 (on the mean over selected rows; here it is over all of a batch, of
which half are). Ours: rounds are as of `cbst`, and lrent labels the rows that `cbst` would select, so that a portion
means the same with every regulariser.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch.nn.functional import cross_entropy

from shiftcal.core.options import option
from shiftcal.data.batches import Batch, PseudoLabels
from shiftcal.functional.self_training import (
    entropy_regularized_labels,
    model_regularizer,
    normalized_confidence,
)
from shiftcal.methods.base import TASK, Outputs, Update
from shiftcal.methods.cbst import ClassBalancedSelfTraining
from shiftcal.methods.networks.classifiers import Classifier

DEFAULT_WEIGHTS = {"lrent": 0.25, "mrkld": 0.01, "mrent": 0.1, "mrl2": 0.025}


@dataclass(frozen=True, kw_only=True)
class ConfidenceRegularizedSelfTraining(ClassBalancedSelfTraining):
    """Class-balanced self-training with soft labels, or with a penalty on confident predictions of selected rows."""

    regularizer: Literal["lrent", "mrkld", "mrent", "mrl2"] = option("mrkld", "of the labels (lr) or the model (mr)")
    regularizer_weight: float | None = option(
        None, f"None: {', '.join(f'{name} {value}' for name, value in DEFAULT_WEIGHTS.items())}", above=0
    )

    @property
    def weight(self) -> float:
        """The weight of the regulariser."""
        return DEFAULT_WEIGHTS[self.regularizer] if self.regularizer_weight is None else self.regularizer_weight

    def label(self, network: Classifier, outputs: Outputs, portion: float) -> PseudoLabels:
        """As the base class does; for lrent with soft labels."""
        hard = super().label(network, outputs, portion)
        if self.regularizer != "lrent":
            return hard
        normalized = normalized_confidence(torch.softmax(outputs.logits.double(), dim=-1), portion)[hard.rows]
        return replace(hard, soft_labels=entropy_regularized_labels(normalized, self.weight).float().numpy())

    def training_step(self, network: Classifier, batch: Batch) -> Iterator[Update]:
        """One step of cross-entropy with soft labels, and the penalty."""
        batch = self.in_strong_views(batch, network.backbone)
        logits, _ = network(batch.source_inputs)
        labels = batch.source_labels if batch.soft_labels is None else batch.soft_labels
        loss = task_loss = cross_entropy(logits, labels)
        if self.regularizer != "lrent":
            penalty = model_regularizer(logits, self.regularizer)
            loss = task_loss + self.weight * (penalty * batch.is_pseudo).mean()
        yield Update(TASK, loss, {"task_loss": task_loss})
