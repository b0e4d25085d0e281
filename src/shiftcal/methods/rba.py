"""Robust bias-aware classification with a density ratio of Gaussians that are given beforehand.

Liu, Ziebart, "Robust Classification Under Sample Selection Bias", NeurIPS 2014: f(y|x) = softmax(R z) with
R = P_source(x) / P_target(x), which is known before training and not learned with it.

    task loss    gradient f(x_s) - 1[y_s] on source inputs, R held fixed (`functional.dual.task_surrogate`)
    densities    a Gaussian for each domain, in the leading principal components of the inputs

A method is not shown the data before training, so the moments of both domains are gathered along the way, over all
batches, and the Gaussians are fitted after steps 1, 2, 4, 8, ...: R is the same for the latter half of training or
more. Images are averaged over 8 x 8 fields first, and more than 256 inputs are projected to 256 random orthogonal
directions, so that the moments stay small.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import adaptive_avg_pool2d

from shiftcal.core.options import option
from shiftcal.core.processes import mean_over_processes
from shiftcal.data.batches import Batch
from shiftcal.data.randomness import seeded_generator
from shiftcal.functional.density_ratio import bounded_domain_logit, ratio_from_logit
from shiftcal.functional.dual import task_surrogate
from shiftcal.functional.gaussian_ratio import Moments, QuadraticForm, gaussian_log_ratio
from shiftcal.functional.predictive import robust_logits
from shiftcal.methods.base import TASK, Method, OptimizerPlan, Outputs, Update
from shiftcal.methods.networks.classifiers import Blueprint, Classifier

_FIELDS, _MOST_DIRECTIONS = 8, 256


class GivenDensities(nn.Module):
    """Moments of both domains (source first) and the log density ratio fitted to them; 0 before the first fit.

    All that prediction reads enters the log ratio linearly, so a moving average of the buffers is a network whose
    log ratio is the moving average.
    """

    directions: Tensor
    num_batches: Tensor
    mean: Tensor
    second: Tensor
    quadratic: Tensor
    linear: Tensor
    constant: Tensor

    def __init__(self, num_inputs: int) -> None:
        super().__init__()
        size = min(num_inputs, _MOST_DIRECTIONS)
        drawn = torch.randn(num_inputs, size, generator=seeded_generator(0))
        directions = torch.eye(size) if num_inputs == size else torch.linalg.qr(drawn).Q
        self.register_buffer("directions", directions, persistent=False)
        self.register_buffer("num_batches", torch.zeros((), dtype=torch.int64))
        self.register_buffer("mean", torch.zeros(2, size))
        self.register_buffer("second", torch.zeros(2, size, size))
        self.register_buffer("quadratic", torch.zeros(size, size))
        self.register_buffer("linear", torch.zeros(size))
        self.register_buffer("constant", torch.zeros(()))

    def forward(self, inputs: Tensor) -> Tensor:
        """Log ratio (N,) at normalised inputs."""
        with torch.autocast(inputs.device.type, enabled=False):
            return QuadraticForm(self.quadratic, self.linear, self.constant)(self._reduced(inputs))

    @torch.no_grad()
    def observe(self, source: Tensor, target: Tensor) -> bool:
        """Take the normalised inputs of a batch into the moments; whether it is time to fit."""
        with torch.autocast(source.device.type, enabled=False):
            rows = [self._reduced(source), self._reduced(target)]
            mean = torch.stack([values.mean(dim=0) for values in rows])
            second = torch.stack([values.T @ values / len(values) for values in rows])
        self.num_batches += 1
        count = int(self.num_batches)
        for kept, new in ((self.mean, mean), (self.second, second)):
            kept.lerp_(mean_over_processes(new), 1 / count)
        return count & (count - 1) == 0

    @torch.no_grad()
    def fit(self, num_components: int, shrinkage: float) -> None:
        """Fit a Gaussian to the moments of each domain; on the CPU, as not every device has float64."""
        source, target = map(Moments, self.mean.cpu().double(), self.second.cpu().double())
        fitted = gaussian_log_ratio(source, target, num_components=num_components, shrinkage=shrinkage)
        for kept, new in zip((self.quadratic, self.linear, self.constant), fitted, strict=True):
            kept.copy_(new)

    def _reduced(self, inputs: Tensor) -> Tensor:
        fields = adaptive_avg_pool2d(inputs, _FIELDS) if inputs.ndim == 4 else inputs
        return fields.float().flatten(1) @ self.directions


class BiasAwareNetwork(nn.Module):
    """A classifier and given densities of its inputs."""

    def __init__(self, blueprint: Blueprint) -> None:
        super().__init__()
        self.task = Classifier(blueprint)
        mean = self.task.backbone.mean
        self.densities = GivenDensities(mean.numel() * (_FIELDS**2 if mean.ndim == 4 else 1))

    def normalised(self, inputs: Tensor) -> Tensor:
        """Inputs as the body of the backbone sees them."""
        backbone = self.task.backbone
        return (inputs - backbone.mean) / backbone.deviation


@dataclass(frozen=True, kw_only=True)
class RobustBiasAware(Method[BiasAwareNetwork]):
    """RBA: logits scaled by the ratio of two Gaussian densities that are not learned with the task."""

    num_components: int = option(8, "principal components that the densities live in", at_least=1, at_most=10_000)
    shrinkage: float = option(0.1, "of each covariance towards a multiple of the identity", at_least=0, at_most=1)
    ratio_bound: float = option(10.0, "R stays within 1/bound and bound at strength 1", above=1)
    ratio_strength: float = option(1.0, "log R is multiplied by this; 0 is R = 1", at_least=0)

    def build(self, blueprint: Blueprint) -> BiasAwareNetwork:
        """A classifier with densities that are yet to be fitted."""
        return BiasAwareNetwork(blueprint)

    def optimizers(self, network: BiasAwareNetwork) -> dict[str, OptimizerPlan]:
        """The task alone; densities are fitted in closed form."""
        return {TASK: self.optimizer_plan(network.task.parameters())}

    def training_step(self, network: BiasAwareNetwork, batch: Batch) -> Iterator[Update]:
        """Take the batch into the moments, then one step of the task with the ratio as it is."""
        if batch.target_inputs is not None:
            pair = (network.normalised(batch.source_inputs), network.normalised(batch.target_inputs))
            if network.densities.observe(*pair):
                network.densities.fit(self.num_components, self.shrinkage)
        logits, _ = network.task(batch.source_inputs)
        ratio = self._ratio(network, batch.source_inputs)
        loss = task_surrogate(logits, batch.source_labels, ratio)
        yield Update(TASK, loss, {"task_loss": loss, "source_ratio": ratio.mean()})

    def predict(self, network: BiasAwareNetwork, inputs: Tensor) -> Outputs:
        """softmax(R z)."""
        logits, features = network.task(inputs)
        ratio = self._ratio(network, inputs)
        return Outputs(robust_logits(logits, ratio), ratio, features)

    def _ratio(self, network: BiasAwareNetwork, inputs: Tensor) -> Tensor:
        log_ratio = bounded_domain_logit(network.densities(network.normalised(inputs)), self.ratio_bound)
        return ratio_from_logit(log_ratio, self.ratio_strength)
