"""What is known of a shift: what a classifier says of rows of both domains, and where these rows lie."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from shiftcal.target.components import Components, fit_components
from shiftcal.target.domain_classifier import DomainClassifier, fit_domain_classifier
from shiftcal.target.shifted_part import ShiftedPart, find_shifted_part

_LEAST_LOG_PROBABILITY = -14.0


@dataclass(frozen=True)
class ObservedRows:
    """Rows of one domain, as a classifier sees them; float64 throughout."""

    logits: Tensor
    """(N, C) of the classifier."""
    target_probability: Tensor
    """(N,) P(target | x) = 1 / (1 + R(x)), with R the density ratio of source to target."""
    features: Tensor | None
    """(N, F) in which clusters are looked for; None where nothing but the logits is known."""
    reference_features: Tensor | None = None
    """(N, G) of a network that learned from the source alone, where there is one: a classifier that was adapted to
    the target is judged in their clusters. Those of its own features confirm what it says."""

    @property
    def judging_features(self) -> Tensor | None:
        """The features in whose clusters a classifier is judged."""
        return self.features if self.reference_features is None else self.reference_features

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


@dataclass(frozen=True)
class ShiftEvidence:
    """All that estimates of the accuracy on a target, and scalings of confidence, are made from."""

    source: ObservedRows
    """Rows that the classifier was trained on; the held-out ones where those are not at hand."""
    source_labels: Tensor
    """(N,) class numbers."""
    held_out: ObservedRows
    """Source rows that it was not trained on."""
    held_out_labels: Tensor
    target: ObservedRows
    before_adaptation: BeforeAdaptation | None = None

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

    @property
    def has_training_rows(self) -> bool:
        """Whether the source rows are others than the held-out ones."""
        return self.source is not self.held_out

    @cached_property
    def components(self) -> tuple[Tensor, Tensor, Tensor]:
        """Of source, held-out and target rows (N, K): of features or, without any, of log-probabilities."""
        own, target = self._described
        components = self._components
        num_held_out = len(self.held_out_labels)
        found = components.of(own)
        held_out = found[:num_held_out]
        return found[num_held_out:] if self.has_training_rows else held_out, held_out, components.of(target)

    @cached_property
    def domains(self) -> DomainClassifier | None:
        """Of all source rows, held-out ones first, and target rows; None where there are too few."""
        own, target = self._described
        return fit_domain_classifier(own, target, self._components)

    @cached_property
    def _components(self) -> Components:
        return fit_components(*self._described)

    @cached_property
    def _described(self) -> tuple[Tensor, Tensor]:
        """Rows of both domains: by features or, without any, by what the classifier says."""
        source = (self.held_out, self.source) if self.has_training_rows else (self.held_out,)
        parts = [
            [rows.judging_features if self.has_features else log_probabilities(rows.logits) for rows in domain]
            for domain in (source, (self.target,))
        ]
        own, target = (torch.cat([part for part in domain if part is not None]) for domain in parts)
        return own, target

    @cached_property
    def shifted(self) -> ShiftedPart:
        """The part of the target that is not as the source; all of it where there are too few rows to tell."""
        if self.domains is None:
            return ShiftedPart(1.0, torch.ones_like(self.target.target_probability))
        return find_shifted_part(self.domains)


def log_probabilities(logits: Tensor) -> Tensor:
    """(N, C); those below 1e-6 differ in nothing that matters."""
    return torch.log_softmax(logits, dim=-1).clamp_min(_LEAST_LOG_PROBABILITY)


def mean_confidence(logits: Tensor) -> float:
    """Mean over rows (N, C) of the largest probability."""
    return float(torch.softmax(logits, dim=-1).amax(dim=-1).mean())


def calibration_gap(logits: Tensor, labels: Tensor) -> float:
    """Accuracy less confidence, less a standard error towards zero: what held-out data shows beyond chance."""
    accuracy = float((logits.argmax(dim=-1) == labels).double().mean())
    gap = accuracy - mean_confidence(logits)
    variance = max(accuracy * (1 - accuracy), 1 / len(labels))
    excess: float = max(abs(gap) - (variance / len(labels)) ** 0.5, 0.0)
    return excess if gap > 0 else -excess
