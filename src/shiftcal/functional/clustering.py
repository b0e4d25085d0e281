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


class Clusters(NamedTuple):
    """One centroid per class, around a common centre."""

    centre: Tensor
    """(F,)"""
    centroids: Tensor
    """(C, F) of unit length."""


def cluster_by_predictions(representation: Tensor, probabilities: Tensor) -> Clusters:
    """Clusters of (N, F) representations, started at the classifier's probabilities (N, C)."""
    centre = representation.mean(dim=0)
    directions = normalize(representation - centre, dim=-1)
    posteriors = probabilities
    for _ in range(ROUNDS):
        centroids = normalize(posteriors.T @ directions, dim=-1)
        posteriors = torch.softmax(SHARPNESS * directions @ centroids.T, dim=-1)
    return Clusters(centre, centroids)


def cluster_posteriors(representation: Tensor, clusters: Clusters) -> Tensor:
    """(N, C) share of each cluster in each of (N, F) representations."""
    directions = normalize(representation - clusters.centre, dim=-1)
    return torch.softmax(SHARPNESS * directions @ clusters.centroids.T, dim=-1)
