"""Distributionally robust learning with a density ratio learned together with the task.

Wang et al., "Learning Calibrated Uncertainties for Domain Shift: A Distributionally Robust Learning Approach",
IJCAI 2023, arXiv 2010.05784: predictive form of Theorem 1, joint loss of Eq. 7, Algorithm 1.

    ratio update   domain binary cross-entropy + dual_weight E_target[logsumexp(R z) - R g . z], z held fixed
    task update    gradient f(x_s) - 1[y_s] on source inputs only, R held fixed, as it was before this update of it
    prediction     softmax(R z / (1 + r)),   R = min(1, exp(strength * bounded domain logit))

A ratio that sees clusters (`ratio_network="confidence"`, the default) has the dual term of Eq. 7 in full
(`shiftcal.functional.dual`): g is what can be known of the target's labels, the shares of its own clusters as far as
classes form clusters on the source, else what a temperature makes of z (`shiftcal.methods.networks.label_estimate`).
So the target itself says how far R has to go, and R is low on rows whose clusters contradict the classifier. R = 1
for rows more like the source than the target, and source rows are trained on with its mean: the few that look like
the target would make all logits grow.

With `ratio_use="paper"` R has no cap, each row its own, and the dual term is without g, as published. It then has R
by its mean over the target, for only R z is fixed by the task: R would fall and z grow without end. All of Algorithm
1 as published is `preset=paper`; `preset=authors` has the settings of the authors' code besides, by which R hardly
moves.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Generic

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from shiftcal.core.options import option
from shiftcal.core.processes import mean_over_batch
from shiftcal.data.batches import Batch
from shiftcal.functional.density_ratio import RATIO_USES, RatioUse, domain_loss, ratio_from_logit
from shiftcal.functional.dual import target_potential, task_surrogate
from shiftcal.functional.predictive import RegularizedForm, robust_logits
from shiftcal.methods.base import RATIO, TASK, Method, OptimizerKind, OptimizerPlan, Outputs, TrainingView, Update
from shiftcal.methods.networks.classifiers import Blueprint, DomainOutputs, observed, task_outputs
from shiftcal.methods.networks.density_ratio import (
    ClassifierWithRatio,
    RatioForm,
    RatioLoss,
    RatioNet,
    RatioNetworkT,
    SeenRows,
)
from shiftcal.methods.shared.label_estimate_fitting import fitted_label_estimate

AS_PUBLISHED: Mapping[str, Any] = {
    "ratio_network": "separate",
    "ratio_strength": 1.0,
    "ratio_bound": 10.0,
    "ratio_use": "paper",
    "dual_weight": 1.0,
}
"""Options of Algorithm 1."""
AUTHORS_RATIO: Mapping[str, Any] = {
    "ratio_optimizer": "sgd",
    "ratio_learning_rate": 1e-5,
    "class_regularization": 1e-3,
}
"""What the authors' code for VisDA-2017 sets besides."""


@dataclass(frozen=True, kw_only=True)
class DistributionallyRobust(Method[RatioNetworkT], Generic[RatioNetworkT]):
    """DRL: logits scaled by a density ratio that is learned together with the task."""

    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "paper": AS_PUBLISHED,
        "authors": {**AS_PUBLISHED, **AUTHORS_RATIO},
    }

    ratio_strength: float = option(0.3, "multiplies log R in training and prediction; the paper: 1", at_least=0)
    ratio_bound: float = option(100.0, "R stays within 1/bound and bound at strength 1", above=1)
    ratio_use: RatioUse = option("capped", RATIO_USES)
    ratio_network: RatioNet = option(
        "confidence", "a head on the task's features, on confidence of task and clusters too, or a network"
    )
    ratio_hidden: int = option(128, "width of the ratio head", at_least=1, at_most=65_536)
    ratio_optimizer: OptimizerKind = option("adamw", "of the ratio network, independent of that of the task")
    ratio_learning_rate: float = option(1e-3, "step size of the ratio network", above=0)
    class_regularization: float = option(0.0, "r of Theorem 1", at_least=0, at_most=1)
    regularized_form: RegularizedForm = option("paper", "for r above 0: Theorem 1 as published, or its maximiser")
    dual_weight: float = option(
        3.0, "weight of the dual term in the ratio's loss, for a ratio that sees clusters; the paper: 1", at_least=0
    )

    def build(self, blueprint: Blueprint) -> Any:
        """A classifier and a ratio."""
        return ClassifierWithRatio(blueprint, self.ratio_form)

    @property
    def ratio_form(self) -> RatioForm:
        """As the options say."""
        return RatioForm(self.ratio_hidden, self.ratio_bound, self.ratio_network)

    def optimizers(self, network: RatioNetworkT) -> dict[str, OptimizerPlan]:
        """Task and ratio, each with its own step size (Algorithm 1)."""
        plans = {TASK: self.optimizer_plan(network.task.parameters())}
        if network.ratio is not None:
            rate, kind = self.ratio_learning_rate, self.ratio_optimizer
            plans[RATIO] = self.optimizer_plan(network.ratio.parameters(), learning_rate=rate, kind=kind)
        return plans

    def fit_buffers(self, network: RatioNetworkT, view: TrainingView) -> Mapping[str, Tensor]:
        """What can be known of the target's labels, where the ratio asks for it."""
        if network.label_estimate is None or not view.clusters_are_due:
            return {}
        return {f"label_estimate.{name}": value for name, value in fitted_label_estimate(network, view).items()}

    def training_step(self, network: RatioNetworkT, batch: Batch) -> Iterator[Update]:
        """Algorithm 1: the ratio from both terms of the joint loss, and the task with the ratio as it stands."""
        if network.ratio is None:
            yield self.joint_update(network, batch, DomainOutputs(*network.task(batch.source_inputs)).logits)
            return
        assert batch.target_inputs is not None
        logits, source = task_outputs(network.task, batch.source_inputs)
        target = observed(network.task, batch.target_inputs)
        yield self.joint_update(network, batch, logits, source, target)

    def joint_update(
        self,
        network: RatioNetworkT,
        batch: Batch,
        logits: Tensor,
        source: DomainOutputs | None = None,
        target: DomainOutputs | None = None,
    ) -> Update:
        """Of the task, by its logits of the source, and of a ratio that is learned, by outputs of both domains."""
        if network.ratio is None:
            loss = self.task_loss(batch, logits, torch.zeros_like(logits[:, 0]))
            return Update(TASK, loss, {"task_loss": loss})
        assert source is not None
        assert target is not None
        ratio = self.ratio_loss(network, batch, network.seen_of_both(batch, source, target), target.logits)
        loss = self.task_loss(batch, logits, ratio.log_ratio[: len(logits)])
        return Update(TASK, loss, {"task_loss": loss, **ratio.logged}, beside={RATIO: ratio.loss})

    def ratio_loss(self, network: RatioNetworkT, batch: Batch, seen: SeenRows, target_logits: Tensor) -> RatioLoss:
        """Both terms of the joint loss, from all rows (N + M, ...) as the ratio sees them: it alone learns by it."""
        num_source, log_ratio = len(batch.source_labels), network.log_ratio(seen)
        loss = telling_apart = domain_loss(log_ratio, num_source, self.ratio_weights(batch))
        if self.dual_weight and (self.ratio_use == "paper" or network.label_estimate is not None):
            ratio = self.applied_ratio(log_ratio[num_source:])
            loss = loss + self.dual_weight * self._dual_term(
                network, ratio, target_logits.detach(), None if seen.shares is None else seen.shares[num_source:]
            )
        of_source, of_target = (part.mean() for part in log_ratio.detach().exp().tensor_split([num_source]))
        logged = {"domain_loss": telling_apart, "source_ratio": of_source, "target_ratio": of_target}
        return RatioLoss(loss, log_ratio.detach(), logged)

    def _dual_term(
        self, network: RatioNetworkT, ratio: Tensor, logits: Tensor, cluster_shares: Tensor | None
    ) -> Tensor:
        """Of target rows with R (M,), z (M, C) and, where clusters are asked, q (M, C)."""
        r = self.class_regularization
        if self.ratio_use == "paper":
            return target_potential(logits, ratio / mean_over_batch(ratio), class_regularization=r)
        assert network.label_estimate is not None
        assert cluster_shares is not None
        labels = network.label_estimate.probabilities(logits, cluster_shares)
        return target_potential(logits, ratio, labels, class_regularization=r)

    def ratio_weights(self, batch: Batch) -> Tensor | None:  # noqa: ARG002
        """Weights (N + M,) of the rows of both domains in the ratio's loss, of mean one in each; None: all alike."""
        return None

    def task_loss(self, batch: Batch, logits: Tensor, log_ratio: Tensor) -> Tensor:
        """What the task network learns from labelled rows, given log R (N,) of these."""
        labels, r, form = batch.source_labels, self.class_regularization, self.regularized_form
        if self.ratio_strength == 0 and r == 0:
            # The surrogate has the same gradient, but its rounding would train another network than `source-only`.
            return cross_entropy(logits, labels)
        own = self.applied_ratio(log_ratio)
        ratio = own if self.ratio_use == "paper" else mean_over_batch(own).expand_as(own)
        return task_surrogate(logits, labels, ratio, class_regularization=r, form=form)

    def applied_ratio(self, log_ratio: Tensor) -> Tensor:
        """R (N,) as it stands in the predictive form, from its estimate."""
        return ratio_from_logit(log_ratio, self.ratio_strength, capped=self.ratio_use == "capped")

    def robust_logits(self, logits: Tensor, log_ratio: Tensor) -> Tensor:
        """Theorem 1 in its inference form."""
        return robust_logits(logits, self.applied_ratio(log_ratio), class_regularization=self.class_regularization)

    def predict(self, network: RatioNetworkT, inputs: Tensor) -> Outputs:
        """The robust form; the density ratio is given as estimated, whatever its strength."""
        outputs = DomainOutputs(*network.task(inputs))
        log_ratio = network.log_ratio(network.seen_by_ratio(inputs, outputs))
        return Outputs(self.robust_logits(outputs.logits, log_ratio), log_ratio.exp(), outputs.features)
