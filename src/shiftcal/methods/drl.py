"""Distributionally robust learning with a density ratio learned together with the task.

Wang et al., "Learning Calibrated Uncertainties for Domain Shift: A Distributionally Robust Learning Approach",
IJCAI 2023, arXiv 2010.05784: predictive form of Theorem 1, joint loss of Eq. 7, Algorithm 1.

    ratio update   domain binary cross-entropy + E_target[logsumexp(R z)], z held fixed
    task update    gradient f(x_s) - 1[y_s] on source inputs only, R held fixed
    prediction     softmax(R z / (1 + r))

A density ratio has mean one over the target: E_target[P_source / P_target] = 1. The dual term is given R divided by
its mean over the target batch, so that it can make some target inputs count as less source-like than others, but
not all of them. Nothing else would keep R from falling and z from growing without end, since the task fixes R z only.

By default the ratio is a head on the task network's features, which it does not change; the paper's own separate
ratio network is `ratio_network="separate"`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from shiftcal.data.batches import Batch
from shiftcal.functional.density_ratio import bounded_domain_logit, density_ratio, domain_loss
from shiftcal.functional.dual import target_potential, task_surrogate
from shiftcal.functional.predictive import robust_logits
from shiftcal.methods.base import RATIO, TASK, Method, OptimizerPlan, Outputs, Update
from shiftcal.models.networks import Blueprint, Classifier, DomainClassifier, observed
from shiftcal.options import option
from shiftcal.processes import mean_over_batch


class RobustNetwork(nn.Module):
    """A classifier with a density ratio on its features, on a network of its own, or (without a target) with none."""

    def __init__(self, blueprint: Blueprint, ratio_hidden: int, *, separate: bool) -> None:
        super().__init__()
        self.task = Classifier(blueprint)
        self.ratio: nn.ModuleDict | None = None
        if blueprint.has_target:
            self.ratio = nn.ModuleDict({"head": DomainClassifier(self.task.backbone.feature_dim, ratio_hidden)})
            if separate:
                self.ratio["backbone"] = blueprint.new_backbone()

    def domain_logit(self, inputs: Tensor, task_features: Tensor) -> Tensor:
        """Unbounded logit (N,) of "source"; gradients never reach the task network."""
        assert self.ratio is not None
        own_backbone = "backbone" in self.ratio
        features = self.ratio["backbone"](inputs) if own_backbone else task_features.detach()
        logit: Tensor = self.ratio["head"](features)
        return logit


@dataclass(frozen=True, kw_only=True)
class DistributionallyRobust(Method[RobustNetwork]):
    """DRL: logits scaled by a density ratio that is learned together with the task."""

    ratio_strength: float = option(0.3, "log R is multiplied by this; 0 is R = 1", at_least=0)
    ratio_bound: float = option(10.0, "R stays within 1/bound and bound at strength 1", above=1)
    ratio_network: Literal["shared", "separate"] = option("shared", "a head on the task's features, or a network")
    ratio_hidden: int = option(128, "width of the ratio head", at_least=1)
    ratio_learning_rate: float = option(1e-3, "step size of the ratio network", above=0)
    class_regularization: float = option(0.0, "r of Theorem 1", at_least=0, at_most=1)
    dual_weight: float = option(0.1, "weight of the dual term in the ratio's loss; 0 leaves it out", at_least=0)

    def build(self, blueprint: Blueprint) -> RobustNetwork:
        """A classifier and a ratio."""
        return RobustNetwork(blueprint, self.ratio_hidden, separate=self.ratio_network == "separate")

    def optimizers(self, network: RobustNetwork) -> dict[str, OptimizerPlan]:
        """Task and ratio, each with its own step size (Algorithm 1)."""
        plans = {TASK: self.optimizer_plan(network.task.parameters())}
        if network.ratio is not None:
            plans[RATIO] = self.optimizer_plan(network.ratio.parameters(), learning_rate=self.ratio_learning_rate)
        return plans

    def training_step(self, network: RobustNetwork, batch: Batch) -> Iterator[Update]:
        """Algorithm 1: the ratio from both terms of the joint loss, then the task with the new ratio."""
        logits, features = network.task(batch.source_inputs)
        if batch.target_inputs is not None:
            yield self._ratio_update(network, batch.source_inputs, features, batch.target_inputs)
        ratio = self._ratio(network, batch.source_inputs, features).detach()
        robust = robust_logits(logits.detach(), ratio, class_regularization=self.class_regularization)
        yield Update(
            TASK,
            task_surrogate(logits, batch.source_labels, ratio, class_regularization=self.class_regularization),
            {"task_loss": cross_entropy(robust, batch.source_labels), "source_ratio": ratio.mean()},
        )

    def predict(self, network: RobustNetwork, inputs: Tensor) -> Outputs:
        """Theorem 1 in its inference form."""
        logits, features = network.task(inputs)
        ratio = self._ratio(network, inputs, features)
        robust = robust_logits(logits, ratio, class_regularization=self.class_regularization)
        return Outputs(robust, ratio, features)

    def _ratio_update(
        self, network: RobustNetwork, source_inputs: Tensor, source_features: Tensor, target_inputs: Tensor
    ) -> Update:
        target_logits, target_features = observed(network.task, target_inputs)
        source_domain = self._domain_logit(network, source_inputs, source_features)
        target_domain = self._domain_logit(network, target_inputs, target_features)
        target_ratio = density_ratio(target_domain, self.ratio_strength)
        telling_apart = domain_loss(source_domain, target_domain)
        relative_ratio = target_ratio / mean_over_batch(target_ratio)
        caution = target_potential(target_logits, relative_ratio, class_regularization=self.class_regularization)
        return Update(
            RATIO,
            telling_apart + self.dual_weight * caution,
            {"domain_loss": telling_apart, "target_ratio": target_ratio.mean()},
        )

    def _domain_logit(self, network: RobustNetwork, inputs: Tensor, features: Tensor) -> Tensor:
        return bounded_domain_logit(network.domain_logit(inputs, features), self.ratio_bound)

    def _ratio(self, network: RobustNetwork, inputs: Tensor, features: Tensor) -> Tensor:
        if network.ratio is None:
            return features.new_ones(len(features))
        return density_ratio(self._domain_logit(network, inputs, features), self.ratio_strength)
