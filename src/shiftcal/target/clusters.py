"""Soft spherical k-means that starts from a classifier's predictions: the structure of the data itself.

    centroid_c = unit( sum_x q_c(x) u(x) ),   q_c(x) = softmax_c( kappa u(x) . centroid_c )

with u(x) the centred features of x at unit length: a mixture of von Mises-Fisher distributions of one concentration
kappa (Banerjee et al., JMLR 6, 2005), with equal weights. It starts at q = the classifier's probabilities, so cluster
c is the classifier's class c, and repeats a few rounds. Centring matters: features behind a ReLU all point the same
way, and a mean that the domains do not share would count as similarity.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor
from torch.linalg import vector_norm
from torch.nn.functional import normalize

from shiftcal.core.errors import InvalidInputError

CONCENTRATION = 30.0
"""kappa."""
_NUM_ROUNDS = 10
# Largest change of a share in a round after which no other follows.
_SETTLED = 1e-3
# Of what has no length, so that nothing is divided by 0; of the sum of no rows: squared.
_LEAST_LENGTH = 1e-12
# Times the median deviation from which on columns are taken to have units of their own.
_UNLIKE_UNITS = 30.0
# Of two: deviations within it, and one over it, are left as they are.
_ORDINARY_EXPONENT = 20


@dataclass(frozen=True)
class Clusters:
    """One centroid per class, around a common centre."""

    units: Tensor
    """(F,) or a scalar, that features are divided by."""
    centre: Tensor
    """(F,)"""
    centroids: Tensor
    """(C, F) of unit length."""

    def __post_init__(self) -> None:
        width = self.centre.shape
        if len(width) != 1 or self.units.shape not in ((), width) or self.centroids.shape[1:] != width:
            raise InvalidInputError(
                f"expected units, centre and centroids of as many columns, got {tuple(self.units.shape)}, "
                f"{tuple(width)} and {tuple(self.centroids.shape)}"
            )

    def log_posteriors(self, features: Tensor) -> Tensor:
        """log q (N, C): the share of each cluster in each row, finite where it is too small to be written."""
        return torch.log_softmax(self._log_odds(features), dim=-1)

    def shares(self, features: Tensor, clusters: Tensor) -> Tensor:
        """q (N,) of one cluster (N,) in each row: of few clusters that takes less time than `log_posteriors`."""
        return _shares(self._log_odds(features), clusters)

    def shares_beside(self, slope: Tensor, intercept: Tensor) -> Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]:
        """`shares` as a function that gives a linear function (N,) of the features too: of slope (F,) and intercept.

        Both come of one look at the features. What does not depend on them is done here, once for many batches.
        """
        # Of rows as they are seen from the centre, which adds a constant.
        slope = slope * self.units
        at_centre = slope @ self.centre + intercept
        vectors = torch.cat([self._concentrated, slope.float().unsqueeze(0)])

        def shares_and_values(features: Tensor, clusters: Tensor) -> tuple[Tensor, Tensor]:
            products, lengths = self._products(features, vectors)
            return _shares(products[:, :-1] / lengths, clusters), products[:, -1] + at_centre

        return shares_and_values

    def log_posteriors_of(self, rows: UnitRows) -> Tensor:
        """The same of rows that these clusters were found from."""
        similarities = _products(rows.directions, self.centroids.to(rows.directions))
        return torch.log_softmax(CONCENTRATION * similarities, dim=-1).to(self.centroids)

    def nearest(self, directions: Tensor) -> Tensor:
        """The cluster (N,) with the largest share in each row, of rows as `UnitRows` has them (N, F)."""
        return _products(directions, self.centroids.to(directions)).argmax(dim=-1)

    def _log_odds(self, features: Tensor) -> Tensor:
        """kappa times the cosines (N, C) of each row and each centroid, seen from the centre."""
        products, lengths = self._products(features, self._concentrated)
        # Lengths divide the few products, and not the many features.
        return (products / lengths).to(features.dtype)

    def _products(self, features: Tensor, vectors: Tensor) -> tuple[Tensor, Tensor]:
        """Of rows seen from the centre the products with vectors (K, F), and lengths (N, 1): in single precision."""
        centre = self.centre.to(features)
        moved = (features / self.units.to(features) - centre if self._has_units else features - centre).float()
        lengths: Tensor = vector_norm(moved, dim=-1, keepdim=True)
        return _products(moved, vectors), lengths.clamp_min_(_LEAST_LENGTH)

    @property
    def _concentrated(self) -> Tensor:
        """kappa times the centroids (C, F), in single precision."""
        return CONCENTRATION * self.centroids.float()

    @cached_property
    def _has_units(self) -> bool:
        return bool((self.units != 1).any())


def _products(rows: Tensor, vectors: Tensor) -> Tensor:
    """(N, K) of rows (N, F) with few vectors (K, F): on a CPU this way round takes half as long as the other."""
    return (vectors @ rows.T).T.contiguous()


def _shares(log_odds: Tensor, clusters: Tensor) -> Tensor:
    """q (N,) of one cluster (N,) in each row, from `Clusters._log_odds`, which are overwritten."""
    # They are at most kappa: no power is too large to be written.
    odds = log_odds.exp_()
    return odds.gather(-1, clusters.unsqueeze(-1)).squeeze(-1).div_(odds.sum(dim=-1))


@dataclass(frozen=True)
class UnitRows:
    """Rows as clusters are found from them, whatever a classifier says: at unit length around their common centre."""

    units: Tensor
    """(F,) or a scalar, that features were divided by."""
    centre: Tensor
    """(F,)"""
    directions: Tensor
    """(N, F) in single precision: it takes half the time, and soft clusters forgive."""
    weights: Tensor
    """(N, 1) how much each row counts."""


def unit_rows(features: Tensor, units: Tensor | None = None, weights: Tensor | None = None) -> UnitRows:
    """Features (N, F) in `common_units` or others, None: as they are; rows of weights (N,), None: all alike."""
    units = features.new_ones(()) if units is None else units
    weights = features.new_ones(len(features)) if weights is None else weights
    scaled = features / units
    centre = (weights / weights.sum()) @ scaled
    directions = normalize(scaled - centre, dim=-1).float()
    return UnitRows(units, centre, directions, weights.float().unsqueeze(-1))


def fit_clusters(rows: UnitRows, probabilities: Tensor) -> Clusters:
    """Clusters of rows, started at the classifier's probabilities (N, C)."""

    def centroids(posteriors: Tensor) -> Tensor:
        return normalize((rows.weights * posteriors).T @ rows.directions, dim=-1)

    settled = _settled_posteriors(lambda posteriors: _products(rows.directions, centroids(posteriors)), probabilities)
    return Clusters(rows.units, rows.centre, centroids(settled).to(rows.centre))


def clusters_of_others(rows: UnitRows, probabilities: Tensor) -> Tensor:
    """The cluster (N,) in which each row would lie if the row itself had no part in any centroid.

    As `fit_clusters` and `Clusters.nearest`, but leaving each row out for itself: of a cluster of three rows each
    is a third, and would confirm whatever the classifier says of it.
    """

    def similarities(posteriors: Tensor) -> Tensor:
        own = rows.weights * posteriors
        sums = own.T @ rows.directions
        with_all = _products(rows.directions, sums)
        lengths = sums.square().sum(dim=-1) - 2 * own * with_all + own.square()
        return (with_all - own) / lengths.clamp_min(_LEAST_LENGTH).sqrt()

    return similarities(_settled_posteriors(similarities, probabilities)).argmax(dim=-1)


def _settled_posteriors(similarities: Callable[[Tensor], Tensor], probabilities: Tensor) -> Tensor:
    """q (N, C) from which a further round changes nothing, or that of the last one."""
    posteriors = probabilities.float()
    for _ in range(_NUM_ROUNDS):
        previous, posteriors = posteriors, torch.softmax(CONCENTRATION * similarities(posteriors), dim=-1)
        if float((posteriors - previous).abs().max()) < _SETTLED:
            break
    return posteriors


def common_units(features: Tensor) -> Tensor:
    """What the columns of features (N, F) are divided by before clusters are looked for: (F,).

    Columns of one embedding share their units, and those that vary most say most: they stay as they are. Columns of a
    table do not, and one that is counted in thousands would be all that counts: where the largest deviation exceeds
    the median by far, each column is divided by its own. Very small and very large columns that share their units are
    divided by a power of two, which rounds nothing: their squares can't be written in single precision.
    """
    deviation = features.std(dim=0, correction=0)
    # By its own size: in other units a column of a table may be any times smaller than the others.
    deviation = ordinary_for_constant(deviation, least=1e-9 * features.abs().amax(dim=0))
    ordinary = float(deviation.median())
    if float(deviation.max()) > _UNLIKE_UNITS * ordinary:
        return deviation
    exponent = round(math.log2(ordinary))
    return torch.full_like(deviation, 1.0 if abs(exponent) <= _ORDINARY_EXPONENT else 2.0**exponent)


def ordinary_for_constant(deviation: Tensor, *, least: float | Tensor) -> Tensor:
    """Deviations (F,), those of at most `least` (one for all, or (F,)) replaced by the median of the others.

    A column that is constant in the source may vary in the target: it gets the scale of an ordinary one.
    """
    varies = deviation > least
    ordinary = deviation[varies].median() if varies.any() else torch.ones_like(deviation[0])
    return torch.where(varies, deviation, ordinary)
