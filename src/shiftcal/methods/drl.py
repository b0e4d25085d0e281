"""Distributionally robust learning with a density ratio learned together with the task.

Wang et al., "Learning Calibrated Uncertainties for Domain Shift: A Distributionally Robust Learning Approach",
IJCAI 2023, arXiv 2010.05784: predictive form of Theorem 1, joint loss of Eq. 7, Algorithm 1.

    ratio update   domain binary cross-entropy + dual_weight E_target[logsumexp(R z)], z held fixed
    task update    gradient f(x_s) - 1[y_s] on source inputs only, R held fixed
    prediction     softmax(R z / (1 + r)),   log R = strength * bounded domain logit

A ratio that learns freely sits at its bound, so the bound decides how unsure predictions on the target can become; to
have that found on the target, put the calibrator `target-scaling` behind. The dual term has no weight by default: it
lowers R most where the classifier is sure, so that a low R would mean an easy input. Where it has one it is given R
by its mean over the target batch: E_target[R] = 1, or R would fall and z grow, for the task fixes R z only.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Generic, Literal

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from shiftcal.core.options import option
from shiftcal.core.processes import mean_over_batch
from shiftcal.data.batches import Batch
from shiftcal.functional.density_ratio import domain_loss, ratio_from_logit
from shiftcal.functional.dual import target_potential, task_surrogate
from shiftcal.functional.predictive import RegularizedForm, robust_logits
from shiftcal.methods.base import RATIO, TASK, Logged, Method, OptimizerKind, OptimizerPlan, Outputs, Update
from shiftcal.methods.networks.classifiers import Blueprint, DomainOutputs, frozen_statistics, observed, task_features
from shiftcal.methods.networks.density_ratio import ClassifierWithRatio, RatioForm, RatioNetworkT, RatioRows


@dataclass(frozen=True, kw_only=True)
class DistributionallyRobust(Method[RatioNetworkT], Generic[RatioNetworkT]):
    """DRL: logits scaled by a density ratio that is learned together with the task."""

    ratio_strength: float = option(1.0, "multiplies log R in training and prediction; 0 is R = 1", at_least=0)
    ratio_bound: float = option(1.5, "R stays within 1/bound and bound at strength 1", above=1)
    ratio_network: Literal["shared", "separate"] = option("shared", "a head on the task's features, or a network")
    ratio_hidden: int = option(128, "width of the ratio head", at_least=1, at_most=65_536)
    ratio_optimizer: OptimizerKind = option("adamw", "of the ratio network, independent of that of the task")
    ratio_learning_rate: float = option(1e-3, "step size of the ratio network", above=0)
    class_regularization: float = option(0.0, "r of Theorem 1", at_least=0, at_most=1)
    regularized_form: RegularizedForm = option(
        "paper", "for r above 0: Theorem 1 as published, or the exact maximiser that it stands for"
    )
    dual_weight: float = option(0.0, "weight of the dual term in the ratio's loss; the paper: 1", at_least=0)

    def build(self, blueprint: Blueprint) -> Any:
        """A classifier and a ratio."""
        return ClassifierWithRatio(blueprint, self.ratio_form)

    @property
    def ratio_form(self) -> RatioForm:
        """As the options say."""
        return RatioForm(self.ratio_hidden, self.ratio_bound, self.ratio_network == "separate")

    def optimizers(self, network: RatioNetworkT) -> dict[str, OptimizerPlan]:
        """Task and ratio, each with its own step size (Algorithm 1)."""
        plans = {TASK: self.optimizer_plan(network.task.parameters())}
        if network.ratio is not None:
            rate, kind = self.ratio_learning_rate, self.ratio_optimizer
            plans[RATIO] = self.optimizer_plan(network.ratio.parameters(), learning_rate=rate, kind=kind)
        return plans

    def training_step(self, network: RatioNetworkT, batch: Batch) -> Iterator[Update]:
        """Algorithm 1: the ratio from both terms of the joint loss, then the task with the new ratio."""
        logits, features = task_features(network.task, batch.source_inputs)
        if batch.target_inputs is not None:
            target = DomainOutputs(*observed(network.task, batch.target_inputs))
            yield self.ratio_update(network, batch, features.detach(), target)
        yield Update(TASK, *self.task_loss(network, batch, DomainOutputs(logits, features)))

    def ratio_update(self, network: RatioNetworkT, batch: Batch, features: Tensor, target: DomainOutputs) -> Update:
        """Both terms of the joint loss, from what the task network gives for a batch, without its gradients."""
        assert batch.target_inputs is not None
        num_source = len(features)
        log_ratios = network.log_ratios(
            RatioRows(batch.source_inputs, features), RatioRows(batch.target_inputs, target.features)
        )
        weights = self.ratio_source_weights(batch)
        if weights is not None:
            weights = torch.cat([weights, weights.new_ones(len(log_ratios) - num_source)])
        loss = telling_apart = domain_loss(log_ratios, num_source, weights)
        target_log = log_ratios[num_source:]
        if self.dual_weight:
            ratio = ratio_from_logit(target_log, self.ratio_strength)
            r, relative = self.class_regularization, ratio / mean_over_batch(ratio)
            loss = loss + self.dual_weight * target_potential(target.logits, relative, class_regularization=r)
        return Update(RATIO, loss, {"domain_loss": telling_apart, "target_ratio": target_log.detach().exp().mean()})

    def ratio_source_weights(self, batch: Batch) -> Tensor | None:  # noqa: ARG002
        """Weights (N,) of the labelled rows of a batch in the ratio's loss, of mean one; None: all alike."""
        return None

    def task_loss(self, network: RatioNetworkT, batch: Batch, source: DomainOutputs) -> tuple[Tensor, Logged]:
        """What the task network learns from labelled rows with the ratio as it now stands, and what to log of it."""
        labels, r, form = batch.source_labels, self.class_regularization, self.regularized_form
        if self.ratio_strength == 0 and r == 0:
            # The surrogate has the same gradient, but its rounding would train another network than `source-only`.
            loss = cross_entropy(source.logits, labels)
            return loss, {"task_loss": loss}
        with torch.no_grad(), frozen_statistics(network):
            log_ratio = network.log_ratio(batch.source_inputs, source.features)
            ratio, mean_ratio = ratio_from_logit(log_ratio, self.ratio_strength), log_ratio.exp().mean()
        loss = task_surrogate(source.logits, labels, ratio, class_regularization=r, form=form)
        return loss, {"task_loss": loss, "source_ratio": mean_ratio}

    def robust_logits(self, logits: Tensor, log_ratio: Tensor) -> Tensor:
        """Theorem 1 in its inference form."""
        ratio = ratio_from_logit(log_ratio, self.ratio_strength)
        return robust_logits(logits, ratio, class_regularization=self.class_regularization)

    def predict(self, network: RatioNetworkT, inputs: Tensor) -> Outputs:
        """The robust form; the density ratio is given as estimated, whatever its strength."""
        logits, features = network.task(inputs)
        log_ratio = network.log_ratio(inputs, features)
        return Outputs(self.robust_logits(logits, log_ratio), log_ratio.exp(), features)
