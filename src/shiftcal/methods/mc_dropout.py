"""Monte Carlo dropout: dropout stays on at prediction, and the predictions of several masks are averaged.

Gal, Ghahramani, "Dropout as a Bayesian Approximation: Representing Model Uncertainty in Deep Learning", ICML 2016.

    loss         mean_source cross_entropy(softmax(W (m * phi(x))), y), with a new random mask m for each sample
    prediction   mean_k softmax(W (m_k * phi(x))), k = 1 ... K

A backbone is anything, so dropout stands where every network has a place for it: between backbone and head. The K
masks of a prediction are fixed and the same for all inputs, so a prediction depends on its input alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, dropout

from shiftcal.core.options import option
from shiftcal.data.batches import Batch
from shiftcal.data.randomness import seeded_generator
from shiftcal.functional.averaging import log_mean_probabilities
from shiftcal.methods.base import TASK, Outputs, Update
from shiftcal.methods.networks.classifiers import Classifier
from shiftcal.methods.source_only import SourceOnly


@dataclass(frozen=True, kw_only=True)
class MonteCarloDropout(SourceOnly):
    """Dropout on the features in training and, averaged over masks, in prediction."""

    dropout_rate: float = option(0.5, "probability that a feature is dropped", above=0, below=1)
    num_passes: int = option(20, "masks that a prediction is averaged over", at_least=1, at_most=1_000)

    def training_step(self, network: Classifier, batch: Batch) -> Iterator[Update]:
        """One step of cross-entropy with dropout."""
        features = dropout(network.backbone(batch.source_inputs), self.dropout_rate)
        loss = cross_entropy(network.head(features), batch.source_labels)
        yield Update(TASK, loss, {"task_loss": loss})

    def predict(self, network: Classifier, inputs: Tensor) -> Outputs:
        """Logits of the mean probabilities."""
        features = network.backbone(inputs)
        drawn = torch.rand(self.num_passes, features.shape[1], generator=seeded_generator(0))
        masks = (drawn >= self.dropout_rate).to(features) / (1 - self.dropout_rate)
        logits = log_mean_probabilities(torch.stack([network.head(features * mask) for mask in masks]))
        return Outputs.at_ratio_one(logits, features)
