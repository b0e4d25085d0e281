"""Cross-domain transformer: the tokens of a source image look at those of a target image of the same class.

Xu, Chen, Wang, Wang, Li, Jin, "CDTrans: Cross-domain Transformer for Unsupervised Domain Adaptation", ICLR 2022.
Three branches of one vision transformer (`models.cross_attention`): source and target with attention to themselves,
and a cross branch with queries of a source image, keys and values of a target image:

    loss = mean_source cross_entropy(p_source, y)
         + mean_pairs [ w_c cross_entropy(p_cross, y-hat) + w_d cross_entropy(p_target, p_cross) ]

The cross branch is the teacher of the target branch. y-hat is the nearest centre of the target's own features. Rows
have a part whose label a source row confirms: the one that is nearest to them, or one that they are nearest to.
Predictions are by the target branch alone.

What is established, from the abstract and the authors' code: branches, weights of 1, labels and their two-way check,
the target branch for predictions. As to distillation the paper has the cross branch teach the target branch; in the
code the roles are exchanged and gradients reach both. Here it is the paper's form, with a teacher without gradient.
What is ours: labels are given anew for each epoch (there every tenth of 40) after a warm-up on the source within the
run (there a network trained before: see `initial_run`); a target row is paired with the most similar source row of
its label in its process's part of the batch (there with its nearest neighbour in the whole domain), so a row whose
class is not among these sits out; the mean over pairs is their sum divided by the number of target rows. There is no
batch norm between backbone and head.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, normalize

from shiftcal.core.options import option
from shiftcal.data.batches import Batch, PseudoLabels
from shiftcal.functional.centre_labels import agree_both_ways, centre_similarities
from shiftcal.functional.self_training import num_warmup_epochs
from shiftcal.methods.base import TASK, TrainingView, Update
from shiftcal.methods.networks.classifiers import Blueprint, Classifier
from shiftcal.methods.networks.cross_attention import Branch, check_transformer, cross_branch, own_branch
from shiftcal.methods.source_only import SourceOnly


@dataclass(frozen=True, kw_only=True)
class CrossDomainTransformer(SourceOnly):
    """CDTrans: cross-attention between source and target images, for vision transformers of timm."""

    needs_target: ClassVar[bool] = True
    needs_transformer: ClassVar[bool] = True
    pseudo_labels_join_source: ClassVar[bool] = False

    warmup_share: float = option(0.3, "share of the epochs on the source alone", at_least=0, below=1)
    cross_weight: float = option(1.0, "w_c, of pseudo-labels in the cross branch", at_least=0)
    distillation_weight: float = option(1.0, "w_d, of the target branch learning from the cross branch", at_least=0)

    def build(self, blueprint: Blueprint) -> Classifier:
        """A classifier whose backbone is a vision transformer."""
        network = Classifier(blueprint)
        check_transformer(network.backbone)
        return network

    def choose_pseudo_labels(self, network: Classifier, view: TrainingView) -> PseudoLabels | None:
        """None during the warm-up, then the labels by centres that the source confirms."""
        del network
        if view.epoch < num_warmup_epochs(view.num_epochs, self.warmup_share):
            return None
        source, target = view.source_outputs, view.target_outputs
        labels = centre_similarities(target.features, torch.softmax(target.logits, dim=-1)).argmax(dim=-1)
        confirmed = agree_both_ways(source.features, view.source_labels, target.features, labels)
        rows = confirmed.nonzero().squeeze(-1)
        return PseudoLabels(rows.numpy(), labels[rows].numpy())

    def training_step(self, network: Classifier, batch: Batch) -> Iterator[Update]:
        """Cross-entropy on the source and, after the warm-up, on pairs."""
        source = own_branch(network.backbone, batch.source_inputs)
        task_loss = cross_entropy(network.head(source.features), batch.source_labels)
        if batch.target_soft_labels is None:
            yield Update(TASK, task_loss, {"task_loss": task_loss})
            return
        assert batch.target_inputs is not None
        target = own_branch(network.backbone, batch.target_inputs)
        labels = batch.target_soft_labels.argmax(dim=-1)
        partners, paired = find_partners(source.features, batch.source_labels, target.features, labels)
        chosen = (paired & batch.target_soft_labels.any(dim=-1)).nonzero().squeeze(-1)
        pairs = source.rows(partners[chosen]), target.rows(chosen)
        cross_loss, distillation_loss = (
            losses.sum() / len(labels) for losses in self._pair_losses(network, *pairs, labels[chosen])
        )
        loss = task_loss + self.cross_weight * cross_loss + self.distillation_weight * distillation_loss
        logged = {"task_loss": task_loss, "cross_loss": cross_loss, "distillation_loss": distillation_loss}
        yield Update(TASK, loss, logged)

    def _pair_losses(
        self, network: Classifier, source: Branch, target: Branch, labels: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Cross-entropy of the cross branch with labels and of the target branch with the cross branch, (N,) each."""
        logits = network.head(cross_branch(network.backbone, source, target))
        taught = torch.softmax(logits.detach(), dim=-1)
        return (
            cross_entropy(logits, labels, reduction="none"),
            cross_entropy(network.head(target.features), taught, reduction="none"),
        )


def find_partners(
    source_features: Tensor, source_labels: Tensor, target_features: Tensor, target_labels: Tensor
) -> tuple[Tensor, Tensor]:
    """For each target row (M,) the most similar source row of its label, and whether there is any of that label."""
    similarities = normalize(target_features.detach(), dim=-1) @ normalize(source_features.detach(), dim=-1).T
    same = target_labels[:, None] == source_labels
    return similarities.masked_fill(~same, -torch.inf).argmax(dim=-1), same.any(dim=-1)
