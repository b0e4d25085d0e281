"""What is known of a shift: what a classifier says of rows of both domains, and where these rows lie."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from shiftcal.functional.temperature import fit_temperature
from shiftcal.target.clusters import Clusters, fit_clusters
from shiftcal.target.dispersion import gathering
from shiftcal.target.structure import DomainStructure

_LEAST_LOG_PROBABILITY = -14.0


@dataclass(frozen=True)
class ObservedRows:
    """Rows of one domain, as a classifier sees them; float64 in evidence."""

    logits: Tensor
    """(N, C) of the classifier."""
    target_probability: Tensor
    """(N,) that a row is of the part of the target that has shifted; of one that has shifted as a whole
    P(target | x) = 1 / (1 + R(x)), with R the density ratio of source to target."""
    features: Tensor | None = None
    """(N, F) in which clusters are looked for; None where nothing but the logits is known."""
    reference_features: Tensor | None = None
    """(N, G) of a network that learned from the source alone, where there is one: a classifier that was adapted to
    the target is judged in their clusters. Those of its own features confirm what it says."""

    @property
    def judging_features(self) -> Tensor | None:
        """The features in whose clusters a classifier is judged."""
        return self.features if self.reference_features is None else self.reference_features

    def taken(self, rows: NDArray[np.int64]) -> ObservedRows:
        """Those of these numbers."""
        chosen = torch.from_numpy(rows)
        return self._each(lambda values: values[chosen])

    def to(self, device: torch.device) -> ObservedRows:
        """The same on a device."""
        return self._each(lambda values: values.to(device))

    def double(self) -> ObservedRows:
        """The same in double precision."""
        return self._each(Tensor.double)

    def _each(self, function: Callable[[Tensor], Tensor]) -> ObservedRows:
        values = (self.logits, self.target_probability, self.features, self.reference_features)
        return ObservedRows(*(None if value is None else function(value) for value in values))  # type: ignore[arg-type]

    @property
    def predicted(self) -> Tensor:
        """(N,) class numbers."""
        return self.logits.argmax(dim=-1)

    @property
    def probabilities(self) -> Tensor:
        """(N, C)."""
        return torch.softmax(self.logits, dim=-1)


@dataclass(frozen=True)
class BeforeAdaptation:
    """What was known of a classifier before it was trained on pseudo-labels of the target."""

    accuracy: float
    """Estimated then. An adapted classifier agrees with the clusters more often than it is right, and it was right
    less often before: the truth lies between the two estimates."""
    domain_auc: float | None
    """Of its outputs then; None where too few source rows were held out to tell. What an adapted classifier says of
    the target looks as on the source, whatever it is worth."""
    prior_explains: bool = False
    """Whether other class frequencies explained the shift then."""
    cluster_purity: float | None = None
    """Of the source's clusters, where it need not be found anew."""


@dataclass(frozen=True)
class ShiftEvidence:
    """All that estimates of the accuracy on a target, and scalings of confidence, are made from."""

    held_out: ObservedRows
    """Source rows that the classifier was not trained on."""
    held_out_labels: Tensor
    """(N,) class numbers."""
    target: ObservedRows
    training: ObservedRows | None = None
    """Source rows that it was trained on; None: not at hand."""
    training_labels: Tensor | None = None
    """(N,) of these; also where no more is known of them, for how frequent classes are."""
    before_adaptation: BeforeAdaptation | None = None
    known_structure: DomainStructure | None = None
    """That of the features of these rows, where it was found before."""

    @property
    def source(self) -> ObservedRows:
        """Rows that the source is known by: those of training, else the held-out ones."""
        return self.held_out if self.training is None else self.training

    @property
    def source_labels(self) -> Tensor:
        """(N,) of these."""
        return self.held_out_labels if self.training_labels is None else self.training_labels

    @property
    def num_classes(self) -> int:
        """C."""
        return self.target.logits.shape[-1]

    @property
    def held_out_accuracy(self) -> float:
        """On held-out source rows."""
        return float(self.right.mean())

    @property
    def right(self) -> Tensor:
        """(N,) 1 where a held-out row is classified rightly, else 0."""
        return (self.held_out.predicted == self.held_out_labels).double()

    @property
    def has_features(self) -> bool:
        """Whether more is known of rows than what the classifier says."""
        return self.target.judging_features is not None and self.held_out.judging_features is not None

    @cached_property
    def structure(self) -> DomainStructure:
        """Of the features in which the classifier is judged or, without any, of what it says."""
        return self.known_structure or DomainStructure(
            None if self.training is None else self._described(self.training),
            self._described(self.held_out),
            self._described(self.target),
        )

    @cached_property
    def source_clusters(self) -> Clusters:
        """Of the source's rows, one for each class."""
        return fit_clusters(self.structure.source_rows, self.source.probabilities)

    @cached_property
    def target_clusters(self) -> Clusters:
        """Of the target's rows, all alike."""
        return fit_clusters(self.structure.target_rows, self.target.probabilities)

    @cached_property
    def gathering(self) -> float:
        """How far the target's rows gather around their clusters (`shiftcal.target.dispersion`)."""
        return gathering(self.structure.target_rows, self.target_clusters)

    def _described(self, rows: ObservedRows) -> Tensor:
        features = rows.judging_features
        return features if self.has_features and features is not None else log_probabilities(rows.logits)


def log_probabilities(logits: Tensor) -> Tensor:
    """(N, C); those below 1e-6 differ in nothing that matters."""
    return torch.log_softmax(logits, dim=-1).clamp_min(_LEAST_LOG_PROBABILITY)


def mean_confidence(logits: Tensor) -> float:
    """Mean over rows (N, C) of the largest probability."""
    return float(torch.softmax(logits, dim=-1).amax(dim=-1).mean())


def held_out_temperature(logits: Tensor, labels: Tensor) -> float:
    """The temperature that labels (N,) of held-out rows ask for; 1 where chance could explain what they show."""
    return 1.0 if calibration_gap(logits.double(), labels) == 0 else fit_temperature(logits, labels)


def calibration_gap(logits: Tensor, labels: Tensor) -> float:
    """Accuracy less confidence, less a standard error towards zero: what held-out data shows beyond chance."""
    accuracy = float((logits.argmax(dim=-1) == labels).double().mean())
    gap = accuracy - mean_confidence(logits)
    variance = max(accuracy * (1 - accuracy), 1 / len(labels))
    excess: float = max(abs(gap) - (variance / len(labels)) ** 0.5, 0.0)
    return excess if gap > 0 else -excess
