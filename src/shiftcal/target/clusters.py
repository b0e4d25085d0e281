"""Soft spherical k-means that starts from a classifier's predictions: the structure of the data itself.

    centroid_c = unit( sum_x q_c(x) u(x) ),   q_c(x) = softmax_c( kappa u(x) . centroid_c )

with u(x) the centred features of x at unit length: a mixture of von Mises-Fisher distributions of one concentration
kappa (Banerjee et al., JMLR 6, 2005), with equal weights. It starts at q = the classifier's probabilities, so cluster
c is the classifier's class c, and repeats a few rounds. Centring matters: features behind a ReLU all point the same
way, and a mean that the domains do not share would count as similarity.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.linalg import vector_norm
from torch.nn.functional import linear, normalize

CONCENTRATION = 30.0
"""kappa."""
_NUM_ROUNDS = 10
# Of what has no length, so that nothing is divided by 0; of the sum of no rows: squared.
_LEAST_LENGTH = 1e-12
# Times the median deviation from which on columns are taken to have units of their own.
_UNLIKE_UNITS = 30.0


@dataclass(frozen=True)
class Clusters:
    """One centroid per class, around a common centre."""

    units: Tensor
    """(F,) or a scalar, that features are divided by."""
    centre: Tensor
    """(F,)"""
    centroids: Tensor
    """(C, F) of unit length."""

    def log_posteriors(self, features: Tensor) -> Tensor:
        """log q (N, C): the share of each cluster in each row, finite where it is too small to be written."""
        return torch.log_softmax(CONCENTRATION * self._similarities(features), dim=-1)

    def posteriors(self, features: Tensor) -> Tensor:
        """q (N, C)."""
        return self.log_posteriors(features).exp()

    def assigned(self, features: Tensor) -> Tensor:
        """The cluster (N,) with the largest share in each row."""
        return self._similarities(features).argmax(dim=-1)

    def _similarities(self, features: Tensor) -> Tensor:
        """Cosines (N, C) of each row and each centroid, seen from the centre; in the precision of the features."""
        units, centre, centroids = (part.to(features) for part in (self.units, self.centre, self.centroids))
        # Lengths divide the few cosines, and not the many features.
        moved = features - centre if bool((units == 1).all()) else features / units - centre
        lengths: Tensor = vector_norm(moved, dim=-1, keepdim=True)
        return linear(moved, centroids) / lengths.clamp_min(_LEAST_LENGTH)


def fit_clusters(
    features: Tensor, probabilities: Tensor, units: Tensor | None = None, weights: Tensor | None = None
) -> Clusters:
    """Clusters of rows (N, F), started at the classifier's probabilities (N, C).

    Args:
        features: of the rows.
        probabilities: of the classifier.
        units: `common_units` or others; None: none.
        weights: (N,) how much each row counts; None: all alike.
    """
    units = features.new_ones(()) if units is None else units
    centre, directions, weights = _prepared(features, units, weights)
    posteriors = probabilities.float()
    for _ in range(_NUM_ROUNDS):
        centroids = normalize((weights * posteriors).T @ directions, dim=-1)
        posteriors = torch.softmax(CONCENTRATION * directions @ centroids.T, dim=-1)
    return Clusters(units, centre, centroids.to(features))


def clusters_of_others(features: Tensor, probabilities: Tensor, units: Tensor, weights: Tensor | None) -> Tensor:
    """The cluster (N,) in which each row would lie if the row itself had no part in any centroid.

    As `fit_clusters` and `Clusters.assigned`, but leaving each row out for itself: of a cluster of three rows each
    is a third, and would confirm whatever the classifier says of it.
    """
    _, directions, weights = _prepared(features, units, weights)

    def similarities(posteriors: Tensor) -> Tensor:
        own = weights * posteriors
        sums = own.T @ directions
        with_all = directions @ sums.T
        lengths = sums.square().sum(dim=-1) - 2 * own * with_all + own.square()
        return (with_all - own) / lengths.clamp_min(_LEAST_LENGTH).sqrt()

    posteriors = probabilities.float()
    for _ in range(_NUM_ROUNDS):
        posteriors = torch.softmax(CONCENTRATION * similarities(posteriors), dim=-1)
    return similarities(posteriors).argmax(dim=-1)


def _prepared(features: Tensor, units: Tensor, weights: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    """Centre (F,), directions (N, F), weights (N, 1).

    In single precision: it takes half the time, and soft clusters forgive.
    """
    weights = features.new_ones(len(features)) if weights is None else weights
    scaled = features / units
    centre = (weights / weights.sum()) @ scaled
    return centre, normalize(scaled - centre, dim=-1).float(), weights.float().unsqueeze(-1)


def common_units(features: Tensor) -> Tensor:
    """What the columns of features (N, F) are divided by before clusters are looked for: (F,).

    Columns of one embedding share their units, and those that vary most say most: they stay as they are. Columns of a
    table do not, and one that is counted in thousands would be all that counts: where the largest deviation exceeds
    the median by far, each column is divided by its own.
    """
    deviation = features.std(dim=0, correction=0)
    deviation = ordinary_for_constant(deviation, least=1e-9 * float(deviation.max()))
    return deviation if deviation.max() > _UNLIKE_UNITS * deviation.median() else torch.ones_like(deviation)


def ordinary_for_constant(deviation: Tensor, *, least: float) -> Tensor:
    """Deviations (F,), those of at most `least` replaced by the median of the others.

    A column that is constant in the source may vary in the target: it gets the scale of an ordinary one.
    """
    varies = deviation > least
    ordinary = deviation[varies].median() if varies.any() else torch.ones_like(deviation[0])
    return torch.where(varies, deviation, ordinary)
