"""FreeMatch: FixMatch with thresholds that follow the network's own confidence, and a reward for fair predictions.

Wang, Chen, Heng, Hou, Fan, Wu, Wang, Savvides, Shinozaki, Raj, Schiele, Xie, "FreeMatch: Self-adaptive Thresholding
for Semi-supervised Learning", ICLR 2023, section 4:

    loss        = loss of FixMatch with threshold_c, c = argmax q,  + w_f sum_c a_c log b_c
    threshold_c = tau p_c / max_c p_c,   tau = moving mean of max q,   p = moving mean of q
    a           = p / h, normalised; h = moving shares of the classes among argmax q;   b: the same of strong views

The sign of the fairness term is that of the paper (its loss is minus a cross-entropy) and of the authors' code. It
draws b away from a, which is not what one would take from the paper's words; its weight is small.

All moving values start at 1/C, as published, so many rows have a part at first. Ours: classes that are predicted on
no strong view of a step have no part in its fairness (in the authors' code they add a constant).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from shiftcal.core.options import option
from shiftcal.core.processes import mean_over_processes, whole_batch
from shiftcal.data.batches import Batch
from shiftcal.functional.adaptive_thresholds import fairness_loss, self_adaptive_thresholds
from shiftcal.functional.consistency import consistency_loss, pseudo_label_record
from shiftcal.methods.base import TASK, Update
from shiftcal.methods.networks.classifiers import Blueprint, Classifier
from shiftcal.methods.shared.consistency import ConsistencyMethod, accepted_labels, classify_views


class SelfAdaptiveClassifier(Classifier):
    """A classifier with moving means of its predictions on the target."""

    confidence: Tensor
    class_means: Tensor
    label_shares: Tensor

    def __init__(self, blueprint: Blueprint) -> None:
        super().__init__(blueprint)
        uniform = torch.full((blueprint.num_classes,), 1 / blueprint.num_classes)
        self.register_buffer("confidence", uniform[0].clone())
        self.register_buffer("class_means", uniform.clone())
        self.register_buffer("label_shares", uniform.clone())

    @torch.no_grad()
    def follow(self, probabilities: Tensor, share: float) -> None:
        """Move the means that share of the way to those of a batch (N, C)."""
        labels = torch.bincount(probabilities.argmax(dim=-1), minlength=probabilities.shape[1])
        self.confidence.lerp_(mean_over_processes(probabilities.amax(dim=-1).mean()), share)
        self.class_means.lerp_(mean_over_processes(probabilities.mean(dim=0)), share)
        self.label_shares.lerp_(mean_over_processes(labels / labels.sum()), share)


@dataclass(frozen=True, kw_only=True)
class FreeMatch(ConsistencyMethod):
    """FixMatch with self-adaptive thresholds and fairness."""

    momentum: float = option(0.999, "share that the moving means keep of themselves at a step", at_least=0, below=1)
    fairness_weight: float = option(0.01, "w_f, of fairness", at_least=0)

    def build(self, blueprint: Blueprint) -> SelfAdaptiveClassifier:
        """A classifier with moving means."""
        return SelfAdaptiveClassifier(blueprint)

    def training_step(self, network: Classifier, batch: Batch) -> Iterator[Update]:
        """One step on labels and pseudo-labels, with the thresholds after a look at the batch."""
        assert isinstance(network, SelfAdaptiveClassifier)
        labelled, weak, strong, _ = classify_views(network, batch)
        probabilities = torch.softmax(weak.logits, dim=-1)
        network.follow(probabilities, 1 - self.momentum)
        thresholds = self_adaptive_thresholds(network.confidence, network.class_means)
        task_loss = cross_entropy(labelled.logits, batch.source_labels)
        agreement_loss, kept = consistency_loss(
            probabilities, strong.logits, thresholds[probabilities.argmax(dim=-1)]
        )
        # Not a mean over rows: it needs those of all processes.
        fairness = fairness_loss(
            whole_batch(strong.logits), whole_batch(kept.int()).bool(), network.class_means, network.label_shares
        )
        yield Update(
            TASK,
            task_loss + self.unlabelled_weight * agreement_loss + self.fairness_weight * fairness,
            {
                "task_loss": task_loss,
                "consistency_loss": agreement_loss,
                "fairness_loss": fairness,
                **pseudo_label_record(probabilities, kept),
            },
            accepted_labels(batch, probabilities, kept),
        )
