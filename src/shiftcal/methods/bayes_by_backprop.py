"""Bayes by backprop: a Gaussian distribution over the weights of the head, learned by variational inference.

Blundell et al., "Weight Uncertainty in Neural Networks", ICML 2015, Eq. 2, with the closed form of its divergence
for a Gaussian prior and the local reparameterisation of Kingma, Salimans, Welling, NeurIPS 2015:

    loss         mean_source cross_entropy(softmax(z + s e), y) + kl_weight KL( q(w) || N(0, prior^2) ),  e ~ N(0, 1)
    prediction   mean_k softmax(W_k phi(x)),  W_k ~ q, k = 1 ... K

with z and s the mean and the deviation of the logits that weights of q give. Eq. 2 divided by the number of source
rows has kl_weight = 1 / rows; a smaller weight is the "cold posterior" that practice prefers. The K draws of a
prediction are fixed and the same for all inputs. Deviations are exp(.), not softplus(.), of their parameters, which
have a step size of their own: at that of the means they would hardly leave their start within a thousand steps.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, linear

from shiftcal.core.options import option
from shiftcal.data.batches import Batch
from shiftcal.data.randomness import seeded_generator
from shiftcal.functional.averaging import log_mean_probabilities
from shiftcal.functional.gaussian_weights import activation_deviation, gaussian_divergence
from shiftcal.methods.base import TASK, Method, OptimizerPlan, Outputs, Update
from shiftcal.methods.networks.classifiers import Blueprint, Classifier

DEVIATION = "deviation"


class BayesianClassifier(Classifier):
    """A classifier whose head holds the means of its weights, with their deviations beside it."""

    def __init__(self, blueprint: Blueprint, initial_deviation: float) -> None:
        super().__init__(blueprint)
        start = math.log(initial_deviation)
        self.log_deviation = nn.Parameter(torch.full_like(self.head.weight, start))
        self.bias_log_deviation = nn.Parameter(torch.full_like(self.head.bias, start))

    def divergence(self, prior_deviation: float) -> Tensor:
        """KL of all the head's weights from their prior."""
        pairs = [(self.head.weight, self.log_deviation), (self.head.bias, self.bias_log_deviation)]
        terms = [gaussian_divergence(mean, log_deviation.exp(), prior_deviation) for mean, log_deviation in pairs]
        return torch.stack(terms).sum()

    def drawn_logits(self, features: Tensor, generator: torch.Generator) -> Tensor:
        """Logits by weights that are drawn once for all rows."""
        weight_noise, bias_noise = (
            torch.randn(values.shape, generator=generator).to(values) for values in (self.head.weight, self.head.bias)
        )
        weight = self.head.weight + weight_noise * self.log_deviation.exp()
        return linear(features, weight, self.head.bias + bias_noise * self.bias_log_deviation.exp())


@dataclass(frozen=True, kw_only=True)
class BayesByBackprop(Method[BayesianClassifier]):
    """Mean-field Gaussian weights in the last layer."""

    prior_deviation: float = option(0.1, "of the prior of each weight", above=0)
    initial_deviation: float = option(0.01, "of each weight before training", above=0)
    deviation_learning_rate: float = option(1e-2, "step size of the deviations' logarithms", above=0)
    kl_weight: float = option(1e-4, "weight of the divergence from the prior; 1 / source rows is Eq. 2", at_least=0)
    num_draws: int = option(20, "draws of the weights that a prediction is averaged over", at_least=1, at_most=1_000)

    def build(self, blueprint: Blueprint) -> BayesianClassifier:
        """A classifier with a Gaussian head."""
        return BayesianClassifier(blueprint, self.initial_deviation)

    def optimizers(self, network: BayesianClassifier) -> dict[str, OptimizerPlan]:
        """Means (and all other weights) and deviations, each with its own step size."""
        deviations = [network.log_deviation, network.bias_log_deviation]
        means = [*network.backbone.parameters(), *network.head.parameters()]
        return {
            TASK: self.optimizer_plan(means),
            DEVIATION: self.optimizer_plan(deviations, learning_rate=self.deviation_learning_rate),
        }

    def training_step(self, network: BayesianClassifier, batch: Batch) -> Iterator[Update]:
        """Means, then deviations, by the same loss."""
        logits, features = network(batch.source_inputs)
        yield self._update(TASK, network, logits, features, batch.source_labels)
        features = features.detach()
        yield self._update(DEVIATION, network, network.head(features), features, batch.source_labels)

    def predict(self, network: BayesianClassifier, inputs: Tensor) -> Outputs:
        """Logits of the mean probabilities."""
        features = network.backbone(inputs)
        generator = seeded_generator(0)
        draws = [network.drawn_logits(features, generator) for _ in range(self.num_draws)]
        logits = log_mean_probabilities(torch.stack(draws))
        return Outputs.at_ratio_one(logits, features)

    def _update(
        self, optimizer: str, network: BayesianClassifier, logits: Tensor, features: Tensor, labels: Tensor
    ) -> Update:
        """The negative evidence bound, with noise on the logits in place of the weights."""
        deviation = activation_deviation(features, network.log_deviation.exp(), network.bias_log_deviation.exp())
        task_loss = cross_entropy(logits + deviation * torch.randn_like(logits), labels)
        divergence = self.kl_weight * network.divergence(self.prior_deviation)
        return Update(optimizer, task_loss + divergence, {"task_loss": task_loss, "weight_divergence": divergence})
