"""Contrastive prototype adaptation: target features are drawn to the prototype of the class that they seem to have.

Qiu, Zhang, Lin, Niu, Liu, Du, Tan, "Source-free Domain Adaptation via Avatar Prototype Generation and Adaptation",
IJCAI 2021 (CPGA). With prototypes v_c, o = softmax_c( cos(f(x), v_c) / T ) and pseudo-labels y-hat of confidence w:

    loss = mean_source cross_entropy(softmax(z), y)
         + mean_target [ -w log o_y-hat + elr_weight log(1 - <t, o>) + neighbour_weight H(neighbours of f(x)) ]
    t    = memory t + (1 - memory) o, kept for each target row: early-learning regularisation
    H      entropy of softmax_{x'} cos(f(x), f(x')) / 0.05 over other target rows: neighbourhood clustering

y-hat is the nearest centre of the target's own features, anew for each epoch (`functional.centre_labels`), and w the
softmax of the similarities to these centres, at the same T.

What is established, from the abstract and the authors' code for VisDA: the three losses, T = 0.07, memory 0.9, the
weights 5 and 0.05, labels and weights by centres. What is simplified here, where source data is at hand: prototypes
are moving means of the source features of each class (there a generator makes them from the source classifier); the
source and its cross-entropy stay in training, with a warm-up on the source alone (there the classifier is fixed);
features are compared as they are (there after a projection of two layers); neighbours are those within the batch
(there all target rows, from a memory of features); all labels come from the centres (there rows on which a sure
classifier and the centres agree keep their labels); there is no adversarial first stage.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, one_hot

from shiftcal.core.options import option
from shiftcal.core.processes import mean_over_processes, whole_batch
from shiftcal.data.batches import Batch, PseudoLabels
from shiftcal.functional.centre_labels import centre_similarities
from shiftcal.functional.prototypes import (
    early_learning_loss,
    neighbour_entropy,
    prototype_contrast,
    prototype_logits,
)
from shiftcal.functional.self_training import num_warmup_epochs
from shiftcal.methods.base import TASK, Method, Outputs, TrainingView, Update
from shiftcal.methods.networks.classifiers import Blueprint, Classifier, classify_jointly

# Share of the sums behind the prototypes that a step keeps: the mean of about the last ten batches.
_PROTOTYPE_MEMORY = 0.9
_NEIGHBOUR_TEMPERATURE = 0.05


class PrototypeNetwork(nn.Module):
    """A classifier with prototypes of its classes and a memory of what it said of each target row."""

    sums: Tensor
    counts: Tensor
    remembered: Tensor

    def __init__(self, blueprint: Blueprint) -> None:
        super().__init__()
        self.task = Classifier(blueprint)
        self.register_buffer("sums", torch.zeros(blueprint.num_classes, self.task.backbone.feature_dim))
        self.register_buffer("counts", torch.zeros(blueprint.num_classes))
        self.register_buffer("remembered", torch.zeros(blueprint.num_target_rows, blueprint.num_classes))

    @property
    def prototypes(self) -> Tensor:
        """(C, F), 0 for a class that was not seen yet."""
        return self.sums / self.counts.clamp_min(1e-6)[:, None]

    @torch.no_grad()
    def update_prototypes(self, features: Tensor, labels: Tensor) -> None:
        """Take in the source features (N, F) of a batch."""
        members = one_hot(labels, len(self.counts)).to(features)
        self.sums.mul_(_PROTOTYPE_MEMORY).add_(mean_over_processes(members.T @ features))
        self.counts.mul_(_PROTOTYPE_MEMORY).add_(mean_over_processes(members.sum(dim=0)))

    @torch.no_grad()
    def remember(self, rows: Tensor, predictions: Tensor, memory: float) -> Tensor:
        """Take in predictions (N, C) for target rows; what is remembered of these rows now."""
        # Of all processes: each has the whole memory.
        everywhere, said = whole_batch(rows), whole_batch(predictions)
        self.remembered[everywhere] = memory * self.remembered[everywhere] + (1 - memory) * said
        return self.remembered[rows]


@dataclass(frozen=True, kw_only=True)
class ContrastivePrototypes(Method[PrototypeNetwork]):
    """CPGA: pseudo-labelled target features around class prototypes, with care for wrong labels."""

    needs_target: ClassVar[bool] = True
    pseudo_labels_join_source: ClassVar[bool] = False

    warmup_share: float = option(0.3, "share of the epochs on the source alone", at_least=0, below=1)
    temperature: float = option(0.07, "T, of similarities to prototypes and centres", above=0)
    contrast_weight: float = option(1.0, "of drawing features to prototypes", at_least=0)
    elr_weight: float = option(5.0, "of early-learning regularisation", at_least=0)
    memory: float = option(0.9, "share of earlier predictions that a row's memory keeps", at_least=0, below=1)
    neighbour_weight: float = option(0.05, "of neighbourhood clustering", at_least=0)

    def build(self, blueprint: Blueprint) -> PrototypeNetwork:
        """A classifier with prototypes and a memory."""
        return PrototypeNetwork(blueprint)

    def choose_pseudo_labels(self, network: PrototypeNetwork, view: TrainingView) -> PseudoLabels | None:
        """None during the warm-up, then labels of all target rows, weighted by their confidence."""
        del network
        if view.epoch < num_warmup_epochs(view.num_epochs, self.warmup_share):
            return None
        outputs = view.target_outputs
        similarities = centre_similarities(outputs.features, torch.softmax(outputs.logits, dim=-1))
        confidence, labels = torch.softmax(similarities / self.temperature, dim=-1).max(dim=-1)
        weighted = confidence[:, None] * one_hot(labels, outputs.logits.shape[1])
        return PseudoLabels(torch.arange(len(labels)).numpy(), labels.numpy(), weighted.numpy())

    def training_step(self, network: PrototypeNetwork, batch: Batch) -> Iterator[Update]:
        """Cross-entropy on the source and, after the warm-up, the three losses on the target."""
        assert batch.target_inputs is not None
        source, target = classify_jointly(network.task, batch.source_inputs, batch.target_inputs)
        task_loss = cross_entropy(source.logits, batch.source_labels)
        network.update_prototypes(source.features, batch.source_labels)
        if batch.target_soft_labels is None:
            yield Update(TASK, task_loss, {"task_loss": task_loss})
            return
        assert batch.target_rows is not None
        confidence, labels = batch.target_soft_labels.max(dim=-1)
        logits = prototype_logits(target.features, network.prototypes, self.temperature)
        remembered = network.remember(batch.target_rows, torch.softmax(logits, dim=-1), self.memory)
        contrast_loss = prototype_contrast(logits, labels, confidence)
        target_loss = (
            self.contrast_weight * contrast_loss
            + self.elr_weight * early_learning_loss(logits, remembered)
            + self.neighbour_weight * neighbour_entropy(whole_batch(target.features), _NEIGHBOUR_TEMPERATURE)
        )
        yield Update(TASK, task_loss + target_loss, {"task_loss": task_loss, "contrast_loss": contrast_loss})

    def predict(self, network: PrototypeNetwork, inputs: Tensor) -> Outputs:
        """The logits of the classifier as they are, with ratio 1."""
        return Outputs.at_ratio_one(*network.task(inputs))
