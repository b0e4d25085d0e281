"""Distributionally robust learning with a density ratio learned together with the task.

Wang et al., "Learning Calibrated Uncertainties for Domain Shift: A Distributionally Robust Learning Approach",
IJCAI 2023, arXiv 2010.05784: predictive form of Theorem 1, joint loss of Eq. 7, Algorithm 1.

    ratio update   domain binary cross-entropy + E_target[logsumexp(R z)], z held fixed
    task update    gradient f(x_s) - 1[y_s] on source inputs only, R held fixed
    prediction     softmax(R z / (1 + r))

How strongly the ratio acts decides whether this helps. With a number as `ratio_strength`, log R is multiplied by it
in training and prediction, as in the paper. With "auto" the task is trained at R = 1, and after training the
strength is found from the target's own structure, without labels: see `shiftcal.target.caution`.

A density ratio has mean one over the target: E_target[P_source / P_target] = 1. The dual term is given R divided by
its mean over the target batch, so that it can make some target inputs count as less source-like than others, but
not all of them. Nothing else would keep R from falling and z from growing without end, since the task fixes R z only.

By default the ratio is a head on the task network's features, which it does not change; the paper's own separate
ratio network is `ratio_network="separate"`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from shiftcal.core.options import option
from shiftcal.core.processes import mean_over_batch
from shiftcal.data.batches import Batch
from shiftcal.data.inputs import Inputs
from shiftcal.functional.density_ratio import bounded_domain_logit, density_ratio, domain_loss
from shiftcal.functional.dual import target_potential, task_surrogate
from shiftcal.functional.predictive import robust_logits
from shiftcal.methods.base import RATIO, TASK, Evidence, Method, OptimizerKind, OptimizerPlan, Outputs, Update
from shiftcal.methods.networks.classifiers import (
    Blueprint,
    Classifier,
    DomainClassifier,
    DomainOutputs,
    frozen_statistics,
    observed,
    uses_batch_statistics,
)
from shiftcal.target.caution import Caution, Observed, Untaught, fit_caution, log_scale
from shiftcal.target.clusters import Clusters
from shiftcal.target.domain_auc import evenly_spread

# Rows of a domain that the strength is found from: enough for every statistic in it.
_MOST_ROWS_OBSERVED = 20_000


class RobustNetwork(nn.Module):
    """A classifier with a density ratio on its features, on a network of its own, or (without a target) with none."""

    centre: Tensor
    centroids: Tensor
    vote: Tensor
    caution: Tensor
    gain: Tensor
    untaught: Tensor
    sharpness: Tensor
    class_balance: Tensor

    def __init__(self, blueprint: Blueprint, ratio_hidden: int, *, separate: bool) -> None:
        super().__init__()
        self.task = Classifier(blueprint)
        self.ratio: nn.ModuleDict | None = None
        if blueprint.has_target:
            self.ratio = nn.ModuleDict({"head": DomainClassifier(self.task.backbone.feature_dim, ratio_hidden)})
            if separate:
                self.ratio["backbone"] = blueprint.new_backbone()
        # Learns from the source alone, for methods that teach the task network on the target.
        self.twin: Classifier | None = None
        # The scale of `ratio_strength="auto"`: no caution until it was found.
        dim = self.task.backbone.representation_dim
        self.register_buffer("centre", torch.zeros(dim))
        self.register_buffer("centroids", torch.zeros(blueprint.num_classes, dim))
        self.register_buffer("vote", torch.zeros(()))
        self.register_buffer("caution", torch.zeros(()))
        self.register_buffer("gain", torch.zeros(()))
        # What `Untaught` has; 0: the classifier was not taught on the target.
        self.register_buffer("untaught", torch.zeros(2))
        self.register_buffer("sharpness", torch.ones(()))
        self.register_buffer("class_balance", torch.zeros(blueprint.num_classes))

    @property
    def clusters(self) -> Clusters:
        """Of the target, as they were found last."""
        return Clusters(self.centre, self.centroids)

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

    is_for_both_domains: ClassVar[bool] = False
    """Whether the confidence on the source matters as much as that on the target, for "auto"."""

    ratio_strength: float | Literal["auto"] = option(
        "auto", "multiplies log R; 0 is R = 1, 1 the paper; auto: found on the target without labels", at_least=0
    )
    ratio_bound: float = option(10.0, "R stays within 1/bound and bound", above=1)
    ratio_network: Literal["shared", "separate"] = option("shared", "a head on the task's features, or a network")
    ratio_hidden: int = option(128, "width of the ratio head", at_least=1)
    ratio_optimizer: OptimizerKind = option("adamw", "of the ratio network, independent of that of the task")
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
            plans[RATIO] = self.optimizer_plan(
                network.ratio.parameters(), learning_rate=self.ratio_learning_rate, kind=self.ratio_optimizer
            )
        return plans

    def training_step(self, network: RobustNetwork, batch: Batch) -> Iterator[Update]:
        """Algorithm 1: the ratio from both terms of the joint loss, then the task with the new ratio."""
        logits, features = network.task(batch.source_inputs)
        if uses_batch_statistics(network.task):
            # Target features are taken with running statistics; with others for the source, the ratio would tell
            # the two kinds of statistics apart instead of the domains.
            _, features = observed(network.task, batch.source_inputs)
        if batch.target_inputs is not None:
            target_outputs = DomainOutputs(*observed(network.task, batch.target_inputs))
            yield self.ratio_update(network, batch, features.detach(), target_outputs)
        with torch.no_grad(), frozen_statistics(network):
            domain_logit = self._domain_logit(network, batch.source_inputs, features)
        ratio = self.ratio_of_training(domain_logit)
        robust = robust_logits(logits.detach(), ratio, class_regularization=self.class_regularization)
        yield Update(
            TASK,
            self.task_loss(logits, batch, domain_logit),
            {"task_loss": cross_entropy(robust, batch.source_labels), "source_ratio": domain_logit.exp().mean()},
        )

    def ratio_of_training(self, domain_logit: Tensor) -> Tensor:
        """R (N,) as it stands in the task's loss: 1 with "auto"."""
        return density_ratio(domain_logit, 0.0 if self.ratio_strength == "auto" else self.ratio_strength)

    def task_loss(self, logits: Tensor, batch: Batch, domain_logit: Tensor) -> Tensor:
        """What the task network learns from the labelled rows of a batch, given their log R (N,)."""
        labels = batch.source_labels
        if self.ratio_strength == "auto" and self.class_regularization == 0:
            # R = 1: the surrogate has the same gradient, but its rounding would make the trained network another
            # than that of `source-only`.
            return cross_entropy(logits, labels)
        ratio = self.ratio_of_training(domain_logit)
        return task_surrogate(logits, labels, ratio, class_regularization=self.class_regularization)

    def predict(self, network: RobustNetwork, inputs: Tensor) -> Outputs:
        """Theorem 1 in its inference form; the density ratio is given as estimated, whatever its strength."""
        return self.robust_outputs(network, inputs, DomainOutputs(*network.task(inputs)))

    def robust_outputs(self, network: RobustNetwork, inputs: Tensor, outputs: DomainOutputs) -> Outputs:
        """The same, with what the task network gives for these inputs or for a view of them."""
        logits, features = outputs
        domain_logit = self._domain_logit(network, inputs, features)
        if self.ratio_strength == "auto":
            representation = network.task.backbone.representation(inputs, features)
            rows = Observed(logits, self.likeness(domain_logit), representation)
            caution = Caution(network.clusters, network.vote, network.caution, network.gain)
            scale = log_scale(caution, rows).exp()
        else:
            scale = density_ratio(domain_logit, self.ratio_strength)
        robust = robust_logits(logits, scale, class_regularization=self.class_regularization)
        return Outputs(robust, domain_logit.exp(), features)

    def likeness(self, domain_logit: Tensor) -> Tensor:
        """How target-like inputs are (N,), given their log R, for the strength of "auto": P(target | x)."""
        return torch.sigmoid(-domain_logit)

    def conclude(self, network: RobustNetwork, evidence: Evidence) -> dict[str, float]:
        """Find the strength for "auto", and the accuracy that can be expected on the target."""
        return self.find_strength(network, evidence)

    def find_strength(self, network: RobustNetwork, evidence: Evidence) -> dict[str, float]:
        """Set the scale of "auto"; findings, none with a fixed strength."""
        if self.ratio_strength != "auto" or evidence.target is None:
            return {}
        source, source_labels = self._observed(network, evidence, evidence.source.inputs, evidence.source.labels)
        held_out, held_out_labels = source, source_labels
        if evidence.held_out is not None:
            inputs, labels = evidence.held_out.inputs, evidence.held_out.labels
            held_out, held_out_labels = self._observed(network, evidence, inputs, labels)
        target, _ = self._observed(network, evidence, evidence.target.inputs, None)
        untaught = Untaught(*network.untaught.tolist()) if network.untaught.any() else None
        caution, estimate = fit_caution(
            source,
            source_labels,
            held_out,
            held_out_labels,
            target,
            untaught=untaught,
            keep_source=self.is_for_both_domains and evidence.held_out is not None,
        )
        assert caution.clusters is not None
        network.centre.copy_(caution.clusters.centre)
        network.centroids.copy_(caution.clusters.centroids)
        network.vote.copy_(caution.vote)
        network.caution.copy_(caution.caution)
        network.gain.copy_(caution.gain)
        earlier = {}
        if untaught is not None and (network.twin is None or estimate.trust < 1):
            earlier["untaught_accuracy"] = untaught.accuracy
        strength = {"caution": float(caution.caution)}
        if self.is_for_both_domains:
            strength["gain"] = float(caution.gain)
        return {**estimate.findings(), **strength, **earlier}

    def _observed(
        self, network: RobustNetwork, evidence: Evidence, inputs: Inputs, labels: np.ndarray | None
    ) -> tuple[Observed, Tensor]:
        """What is known of the rows of a domain (of some thousands of them, evenly spread), with their labels."""
        rows = evenly_spread(len(inputs), _MOST_ROWS_OBSERVED).numpy()

        def observe(batch: Tensor) -> tuple[Tensor, ...]:
            logits, features = network.task(batch)
            domain_logit = self._domain_logit(network, batch, features)
            representations = [network.task.backbone.representation(batch, features)]
            if network.twin is not None:
                representations.append(network.twin(batch)[1])
            return logits, self.likeness(domain_logit), *representations

        values = evidence.observe(observe, inputs.subset(rows))
        chosen = np.zeros_like(rows) if labels is None else labels[rows]
        return Observed(*(value.double() for value in values)), torch.from_numpy(chosen)

    def ratio_update(
        self, network: RobustNetwork, batch: Batch, source_features: Tensor, target: DomainOutputs
    ) -> Update:
        """Both terms of the joint loss, from what the task network gives for a batch, without its gradients."""
        assert batch.target_inputs is not None
        # Both domains in one pass: batch norm of a ratio network of its own must not see them apart.
        both_inputs = torch.cat([batch.source_inputs, batch.target_inputs])
        both_features = torch.cat([source_features, target.features])
        both = self._domain_logit(network, both_inputs, both_features)
        source_domain, target_domain = torch.split(both, [len(batch.source_inputs), len(batch.target_inputs)])
        target_ratio = density_ratio(target_domain, 1.0 if self.ratio_strength == "auto" else self.ratio_strength)
        telling_apart = domain_loss(source_domain, target_domain, self._source_weights(batch))
        relative_ratio = target_ratio / mean_over_batch(target_ratio)
        caution = target_potential(target.logits, relative_ratio, class_regularization=self.class_regularization)
        return Update(
            RATIO,
            telling_apart + self.dual_weight * caution,
            {"domain_loss": telling_apart, "target_ratio": target_domain.exp().mean()},
        )

    def _source_weights(self, batch: Batch) -> Tensor | None:
        """With "auto" R stays that of the source itself: pseudo-labelled rows of the target are no part of it."""
        if self.ratio_strength != "auto" or not batch.is_pseudo.any():
            return None
        is_source = (~batch.is_pseudo).float()
        return is_source / mean_over_batch(is_source).clamp_min(1 / len(is_source))

    def _domain_logit(self, network: RobustNetwork, inputs: Tensor, features: Tensor) -> Tensor:
        """Bounded log R (N,); 0 where there is no target."""
        if network.ratio is None:
            return features.new_zeros(len(features))
        return bounded_domain_logit(network.domain_logit(inputs, features), self.ratio_bound)
