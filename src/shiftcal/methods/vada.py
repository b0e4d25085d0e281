"""Virtual adversarial domain adaptation, and its refinement with a teacher.

Shu, Bui, Narui, Ermon, "A DIRT-T Approach to Unsupervised Domain Adaptation", ICLR 2018, Eq. 8 and Eq. 10:

    VADA loss     mean_s cross_entropy + lambda_d adversarial + lambda_s V(source) + lambda_t (V(target) + H(target))
    DIRT-T loss   lambda_t (V(target) + H(target)) + beta mean_t KL( teacher || f )

H is the entropy of the predictions, V the divergence under a virtual adversarial perturbation. As in the paper the
discriminator and the network take turns, the network with exchanged domain labels, in place of gradient reversal.

The paper's perturbation of length 3.5 for 32 x 32 colour images is a root mean square of 3.5 / sqrt(3072) = 0.063;
here that is in units of the inputs' standard deviation, so that it has a meaning for any inputs. DIRT-T starts after
a number of steps, since a method does not know how many there will be. Its teacher is a moving average that starts
as the VADA network and is moved at every step (the paper: a copy of a moving average, renewed at intervals).
Predictions are by a moving average of the weights, as the paper's.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from shiftcal.core.options import option
from shiftcal.data.batches import Batch
from shiftcal.functional.density_ratio import domain_loss
from shiftcal.functional.entropy import prediction_divergence, prediction_entropy
from shiftcal.functional.virtual_adversarial import virtual_adversarial_perturbation
from shiftcal.methods.base import TASK, Method, OptimizerPlan, Outputs, Update
from shiftcal.methods.networks.classifiers import (
    Blueprint,
    Classifier,
    ClassifierWithDiscriminator,
    DomainClassifier,
    observed,
    untracked_statistics,
)

DOMAIN = "domain"


class AdversarialNetwork(ClassifierWithDiscriminator):
    """A classifier, a discriminator of domains on its features, a teacher where one is wanted, and a step counter."""

    step: Tensor

    def __init__(self, blueprint: Blueprint, domain_hidden: int, *, has_teacher: bool) -> None:
        super().__init__(blueprint, lambda dim: DomainClassifier(dim, domain_hidden))
        self.teacher = copy.deepcopy(self.task).requires_grad_(False) if has_teacher else None
        self.register_buffer("step", torch.zeros((), dtype=torch.int64))

    @torch.no_grad()
    def move_teacher(self, share: float) -> None:
        """Move the teacher's weights that share of the way to the network's, and take over its statistics."""
        assert self.teacher is not None
        for taught, own in zip(self.teacher.parameters(), self.task.parameters(), strict=True):
            taught.lerp_(own, share)
        for kept, given in zip(self.teacher.buffers(), self.task.buffers(), strict=True):
            kept.copy_(given)


@dataclass(frozen=True, kw_only=True)
class VirtualAdversarial(Method[AdversarialNetwork]):
    """VADA: domain-adversarial features, and decision boundaries away from the data; DIRT-T on request."""

    needs_target: ClassVar[bool] = True

    ema_decay: float = option(0.998, "of the average of the weights that predicts; 0: off", at_least=0, below=1)
    domain_weight: float = option(1e-2, "lambda_d, of confusing the discriminator", at_least=0)
    source_weight: float = option(1.0, "lambda_s, of smoothness around source inputs", at_least=0)
    target_weight: float = option(1e-2, "lambda_t, of entropy and smoothness on the target", at_least=0)
    radius: float = option(0.063, "root mean square of perturbations, in deviations of the inputs", above=0)
    domain_hidden: int = option(100, "width of the discriminator", at_least=1, at_most=65_536)
    refine_after: int | None = option(
        None, "steps of VADA before DIRT-T; None: VADA to the end", at_least=1, at_most=1_000_000_000
    )
    teacher_weight: float = option(1e-2, "beta, of agreeing with the teacher in DIRT-T", at_least=0)
    teacher_decay: float = option(0.998, "share that the teacher keeps of itself at a step", at_least=0, at_most=1)

    def build(self, blueprint: Blueprint) -> AdversarialNetwork:
        """A classifier with a discriminator, and a teacher for DIRT-T."""
        return AdversarialNetwork(blueprint, self.domain_hidden, has_teacher=self.refine_after is not None)

    def optimizers(self, network: AdversarialNetwork) -> dict[str, OptimizerPlan]:
        """Classifier and discriminator, which take turns."""
        return {
            TASK: self.optimizer_plan(network.task.parameters()),
            DOMAIN: self.optimizer_plan(network.domain.parameters()),
        }

    def training_step(self, network: AdversarialNetwork, batch: Batch) -> Iterator[Update]:
        """A step of VADA or, after `refine_after` of them, of DIRT-T."""
        step = int(network.step)
        network.step += 1
        if self.refine_after is None or step < self.refine_after:
            yield from self._adapt(network, batch)
            if step + 1 == self.refine_after:
                network.move_teacher(1.0)
        else:
            yield self._refine(network, batch)
            network.move_teacher(1 - self.teacher_decay)

    def predict(self, network: AdversarialNetwork, inputs: Tensor) -> Outputs:
        """The logits as they are, with ratio 1: the discriminator sees features from which the shift was removed."""
        return Outputs.at_ratio_one(*network.task(inputs))

    def _adapt(self, network: AdversarialNetwork, batch: Batch) -> Iterator[Update]:
        """Eq. 8: the discriminator, then the classifier against the new discriminator."""
        assert batch.target_inputs is not None
        source_logits, source_features = network.task(batch.source_inputs)
        target_logits, target_features = network.task(batch.target_inputs)
        features, num_source = torch.cat([source_features, target_features]), len(source_features)
        telling_apart = domain_loss(network.domain(features.detach()), num_source)
        yield Update(DOMAIN, telling_apart, {"domain_loss": telling_apart})

        task_loss = cross_entropy(source_logits, batch.source_labels)
        confusing = domain_loss(-network.domain(features), num_source)
        source_change = self._change(network.task, batch.source_inputs, source_logits, self.source_weight)
        cluster_loss = self._cluster_loss(network.task, batch.target_inputs, target_logits)
        loss = task_loss + self.domain_weight * confusing + self.source_weight * source_change
        yield Update(
            TASK, loss + self.target_weight * cluster_loss, {"task_loss": task_loss, "cluster_loss": cluster_loss}
        )

    def _refine(self, network: AdversarialNetwork, batch: Batch) -> Update:
        """Eq. 10: the target alone, not too far from the teacher."""
        assert batch.target_inputs is not None
        assert network.teacher is not None
        logits, _ = network.task(batch.target_inputs)
        teacher_logits, _ = observed(network.teacher, batch.target_inputs)
        teacher_loss = prediction_divergence(teacher_logits, logits).mean()
        cluster_loss = self._cluster_loss(network.task, batch.target_inputs, logits)
        return Update(
            TASK,
            self.target_weight * cluster_loss + self.teacher_weight * teacher_loss,
            {"cluster_loss": cluster_loss, "teacher_loss": teacher_loss},
        )

    def _cluster_loss(self, task: Classifier, inputs: Tensor, logits: Tensor) -> Tensor:
        """V + H: how far the cluster assumption is violated."""
        return self._change(task, inputs, logits, self.target_weight) + prediction_entropy(logits).mean()

    def _change(self, task: Classifier, inputs: Tensor, logits: Tensor, weight: float) -> Tensor:
        """V, the mean divergence under perturbation; not worked out where it has no weight."""
        if weight == 0:
            return logits.new_zeros(())
        with untracked_statistics(task):
            perturbation = virtual_adversarial_perturbation(
                lambda values: task(values)[0],
                inputs,
                logits,
                noise=torch.randn_like(inputs),
                radius=self.radius,
                scale=task.backbone.deviation,
            )
            return prediction_divergence(logits.detach(), task(inputs + perturbation)[0]).mean()
