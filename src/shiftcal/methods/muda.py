"""Adaptation by model uncertainty: the backbone avoids features on which Monte Carlo dropout is of many minds.

Lee, Lee, "Model Uncertainty for Unsupervised Domain Adaptation", ICIP 2020, and its longer form, "Unsupervised Domain
Adaptation Based on the Predictive Uncertainty of Models", 2022 (arXiv 2211.08866). A step is three losses in turn:

    1   all        mean_source cross_entropy(p, y)
    2   head       mean_source cross_entropy(p, y)
    3   backbone   mean_source cross_entropy(p, y) + uncertainty_weight mean_target U
        with       U(x) = || deviation_k p_k(x) ||_2 over the classes, p_k the prediction for dropout mask k = 1 ... K

What is established: the abstracts of both papers (model uncertainty, estimated by Monte Carlo dropout, as the
divergence of the domains, to be made small by the features), and from the authors' public code for the longer paper
(SVHN to MNIST) the losses, K = 10, predictions without dropout and, for VisDA, the rate. What is not: whether the
ICIP paper has the same norm, K and weight. What is ours: the weight, settled on embedded digits (theirs is 1);
dropout stands between backbone and head alone, where every network has a place for it (the authors have it within the
backbone, too); there is no separate source training beforehand; the gradient of cross-entropy in 3 is taken after 2,
not before; features can't shrink to where no dropout would change anything (`SteadyClassifier`; batch normalisation
does that in the authors' networks). One optimiser serves all steps, as one for each part does there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, dropout

from shiftcal.core.options import option
from shiftcal.data.batches import Batch
from shiftcal.functional.discrepancy import prediction_deviation
from shiftcal.methods.base import TASK, Update
from shiftcal.methods.networks.classifiers import Blueprint, Classifier, SteadyClassifier, through_fixed
from shiftcal.methods.source_only import SourceOnly


@dataclass(frozen=True, kw_only=True)
class ModelUncertainty(SourceOnly):
    """MUDA: features on which the predictions of several dropout masks agree."""

    needs_target: ClassVar[bool] = True

    dropout_rate: float = option(0.5, "probability that a feature is dropped", above=0, below=1)
    num_passes: int = option(10, "K, masks that the uncertainty is estimated from", at_least=2, at_most=1_000)
    uncertainty_weight: float = option(0.1, "weight of the target's uncertainty", at_least=0)

    def build(self, blueprint: Blueprint) -> SteadyClassifier:
        """A classifier with features that can't shrink."""
        return SteadyClassifier(blueprint)

    def training_step(self, network: Classifier, batch: Batch) -> Iterator[Update]:
        """The three losses in turn."""
        assert isinstance(network, SteadyClassifier)
        assert batch.target_inputs is not None
        logits, _ = network(batch.source_inputs)
        task_loss = cross_entropy(logits, batch.source_labels)
        yield Update(TASK, task_loss, {"task_loss": task_loss})

        source_features = network.features(batch.source_inputs)
        yield Update(TASK, cross_entropy(network.head(source_features.detach()), batch.source_labels))

        task_loss = cross_entropy(through_fixed(network.head, source_features), batch.source_labels)
        uncertainty = self._uncertainty(network, batch.target_inputs)
        yield Update(TASK, task_loss + self.uncertainty_weight * uncertainty, {"uncertainty": uncertainty})

    def _uncertainty(self, network: SteadyClassifier, inputs: Tensor) -> Tensor:
        """The mean of U over the rows, with new masks for each row."""
        features = network.features(inputs)
        passes = [through_fixed(network.head, dropout(features, self.dropout_rate)) for _ in range(self.num_passes)]
        return prediction_deviation(torch.stack(passes)).mean()
