"""Soft spherical k-means that starts from a classifier's predictions: the structure of the data itself as a witness.

    centroid_c = unit( sum_x q_c(x) u(x) ),   q_c(x) = softmax_c( sharpness u(x) . centroid_c )

with u(x) the centred representation of x at unit length. It starts at q = the classifier's probabilities, so cluster
c is the classifier's class c, and repeats a few rounds. Centring matters: representations behind a ReLU all point the
same way, and a mean that the domains do not share would count as likeness.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import normalize

SHARPNESS = 30.0
ROUNDS = 10
_UNLIKE_UNITS = 30.0


class Clusters(NamedTuple):
    """One centroid per class, around a common centre."""

    centre: Tensor
    """(F,)"""
    centroids: Tensor
    """(C, F) of unit length."""


def cluster_by_predictions(representation: Tensor, probabilities: Tensor) -> Clusters:
    """Clusters of (N, F) representations, started at the classifier's probabilities (N, C)."""
    centre = representation.mean(dim=0)
    # In single precision: it takes half the time, and soft clusters forgive.
    directions = normalize(representation - centre, dim=-1).float()
    posteriors = probabilities.float()
    for _ in range(ROUNDS):
        centroids = normalize(posteriors.T @ directions, dim=-1)
        posteriors = torch.softmax(SHARPNESS * directions @ centroids.T, dim=-1)
    return Clusters(centre, centroids.to(representation))


def cluster_posteriors(representation: Tensor, clusters: Clusters) -> Tensor:
    """(N, C) share of each cluster in each of (N, F) representations."""
    return cluster_log_posteriors(representation, clusters).exp()


def cluster_log_posteriors(representation: Tensor, clusters: Clusters) -> Tensor:
    """The logarithm of `cluster_posteriors`, finite where a share is too small to be written."""
    directions = normalize(representation - clusters.centre, dim=-1)
    return torch.log_softmax(SHARPNESS * directions @ clusters.centroids.T, dim=-1)


def compactness(representation: Tensor, clusters: Clusters) -> float:
    """Mean cosine of (N, F) representations with the nearest centroid."""
    directions = normalize(representation - clusters.centre, dim=-1)
    return float((directions @ clusters.centroids.T).max(dim=-1).values.mean())


def ordinary_for_constant(deviation: Tensor, *, least: float) -> Tensor:
    """Deviations (F,), those of at most `least` replaced by the median of the others.

    A column that is constant in the source may vary in the target: it gets the scale of an ordinary one.
    """
    varies = deviation > least
    ordinary = deviation[varies].median() if varies.any() else torch.ones_like(deviation[0])
    return torch.where(varies, deviation, ordinary)


def common_units(deviation: Tensor) -> Tensor:
    """What columns with these deviations (F,) are divided by before clusters are looked for.

    Columns of one embedding share their units, and those that vary most say most: they stay as they are. Columns of a
    table do not, and one that is counted in thousands would be all that counts: where the largest deviation exceeds
    the median by far, each column is divided by its own.
    """
    return deviation if deviation.max() > _UNLIKE_UNITS * deviation.median() else torch.ones_like(deviation)
