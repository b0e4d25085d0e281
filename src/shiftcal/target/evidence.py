"""What is known of a shift: what a classifier says of rows of both domains, and where these rows lie."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

# Rows of a domain that estimates are made from: enough for every statistic in them.
MOST_ROWS = 20_000


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


def sampled_rows(num_rows: int, most: int = MOST_ROWS) -> np.ndarray:
    """At most so many row numbers in ascending order: all of them, or a sample that is the same each time.

    A sample at even distances would take a single class of data that repeats its classes in turn.
    """
    if num_rows <= most:
        return np.arange(num_rows, dtype=np.int64)
    return np.sort(np.random.default_rng(0).permutation(num_rows)[:most]).astype(np.int64)


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
