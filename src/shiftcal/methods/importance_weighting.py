"""Importance weighting: source samples count as much as they are typical of the target.

Shimodaira, "Improving predictive inference under covariate shift by weighting the log-likelihood function", Journal
of Statistical Planning and Inference 90, 2000; flattened weights: also Sugiyama, Krauledat, Mueller, JMLR 8, 2007.

    task loss    mean_source [ w(x) / mean(w) * cross_entropy(softmax(z), y) ],   w = (P_target / P_source)^flattening
    ratio loss   domain binary cross-entropy of a head on the task's features, which it does not change

The weights come from a domain classifier (Bickel, Brueckner, Scheffer, JMLR 10, 2009) that is trained along with the
task, are bounded, and have mean one over each batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from shiftcal.core.options import option
from shiftcal.core.processes import mean_over_batch
from shiftcal.data.batches import Batch
from shiftcal.functional.density_ratio import domain_loss, ratio_from_logit
from shiftcal.methods.base import RATIO, TASK, Method, OptimizerKind, OptimizerPlan, Outputs, Update
from shiftcal.methods.networks.classifiers import Blueprint, DomainOutputs, observed, task_outputs
from shiftcal.methods.networks.density_ratio import ClassifierWithRatio, RatioForm


@dataclass(frozen=True, kw_only=True)
class ImportanceWeighting(Method[ClassifierWithRatio]):
    """Source cross-entropy weighted by P_target / P_source from a domain classifier."""

    flattening: float = option(1.0, "exponent of the weights; 0 weights all alike", at_least=0, at_most=1)
    ratio_bound: float = option(10.0, "P_source / P_target stays within 1/bound and bound", above=1)
    ratio_hidden: int = option(128, "width of the ratio head", at_least=1, at_most=65_536)
    ratio_optimizer: OptimizerKind = option("adamw", "of the ratio head, independent of that of the task")
    ratio_learning_rate: float = option(1e-3, "step size of the ratio head", above=0)

    def build(self, blueprint: Blueprint) -> ClassifierWithRatio:
        """A classifier with a ratio head."""
        return ClassifierWithRatio(blueprint, RatioForm(self.ratio_hidden, self.ratio_bound))

    def optimizers(self, network: ClassifierWithRatio) -> dict[str, OptimizerPlan]:
        """Task and ratio, each with its own optimiser."""
        plans = {TASK: self.optimizer_plan(network.task.parameters())}
        if network.ratio is not None:
            plans[RATIO] = self.optimizer_plan(
                network.ratio.parameters(), learning_rate=self.ratio_learning_rate, kind=self.ratio_optimizer
            )
        return plans

    def training_step(self, network: ClassifierWithRatio, batch: Batch) -> Iterator[Update]:
        """The ratio, then the task with the new weights."""
        logits, source = task_outputs(network.task, batch.source_inputs)
        if batch.target_inputs is not None:
            target = observed(network.task, batch.target_inputs)
            log_ratio = network.log_ratio(network.seen_of_both(batch, source, target))
            telling_apart = domain_loss(log_ratio, len(logits))
            yield Update(RATIO, telling_apart, {"domain_loss": telling_apart})
        with torch.no_grad():
            log_ratio = network.log_ratio(network.seen_by_ratio(batch.source_inputs, source))
            weights = ratio_from_logit(log_ratio, -self.flattening)
        losses = cross_entropy(logits, batch.source_labels, reduction="none")
        loss = (weights / mean_over_batch(weights) * losses).mean()
        yield Update(TASK, loss, {"task_loss": loss})

    def predict(self, network: ClassifierWithRatio, inputs: Tensor) -> Outputs:
        """The logits as they are, and the ratio that the weights come from."""
        outputs = DomainOutputs(*network.task(inputs))
        log_ratio = network.log_ratio(network.seen_by_ratio(inputs, outputs))
        return Outputs(outputs.logits, log_ratio.exp(), outputs.features)
