"""Rows of a target that are of none of the source's classes, where these gather into clusters of their own.

    proximity_k = max_j cos( target centroid_k, source centroid_j )

of clusters k of the target and clusters j of the source, of either more than there are classes: a class may have
several. The upper quartile of the proximity over rows is what the shift leaves of it for rows of known classes; where
that is little, new classes can't be told from known ones that have moved, and nothing is said. A cluster is of a new
class if its proximity is a small part of the usual one, while its rows gather around it about as densely as those of
the source around their classes: rows that a shift has driven away from all classes lie scattered.

Clusters start where classes are, and at rows that further ones gather around: each is the row that adds most to the
sum over rows of the similarity to the nearest start (greedy facility location: Nemhauser, Wolsey, Fisher,
Mathematical Programming 14, 1978).

A class that is new but like a known one is not found so. How often that happens is known from the source: of its
classes, each against clusters of the others as if it were new, a share h would be found: the power of the test. The
share of rows that are seen is divided by it. Where it is small, what lies far from all classes is rather a known one
that has moved, and nothing is said.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from scipy.sparse.csgraph import connected_components
from torch import Tensor
from torch.nn.functional import one_hot

from shiftcal.target.clusters import Clusters, UnitRows, fit_clusters
from shiftcal.target.diagnosis import NewClasses
from shiftcal.target.dispersion import similarity_to_others
from shiftcal.target.rule import TrustRule
from shiftcal.target.sampling import sampled_rows

# Clusters that are looked for beside one for each class: half as many, and some more where classes are few.
_MORE_CLUSTERS = 0.5
_LEAST_MORE = 3
# Rows of the target that clusters are found from.
_MOST_ROWS = 2_000
# Of a cluster; where there are fewer for each, nothing is said.
_FEWEST_ROWS = 5
_UPPER_QUARTILE = 0.75


def find_new_classes(
    source: UnitRows, labels: Tensor, classes: Tensor, target: UnitRows, target_clusters: Clusters, rule: TrustRule
) -> NewClasses | None:
    """Rows in clusters that are far from all classes and as dense as these; None where there are too few.

    Args:
        source: rows (N, F).
        labels: (N,) their class numbers.
        classes: centroids (C, F) of these.
        target: rows (M, F).
        target_clusters: of these, one for each class of the classifier.
        rule: which clusters are new.
    """
    # Of classes that there are rows of, as their centroids are.
    labels = (labels.bincount() > 0).cumsum(dim=0)[labels] - 1
    num_more = int(_MORE_CLUSTERS * len(classes)) + _LEAST_MORE
    starts = target_clusters.centroids.float()
    if min(len(target.directions), _MOST_ROWS) < _FEWEST_ROWS * (len(starts) + num_more):
        return None
    of_source = _clusters(source.directions, classes, num_more)
    of_target = _clusters(target.directions, starts, num_more)
    proximity = (of_target.centroids @ of_source.centroids[of_source.sizes > 0].T).amax(dim=-1)
    usual = float(proximity[of_target.own].quantile(_UPPER_QUARTILE))
    if usual < rule.least_usual_proximity:
        return None
    farthest = rule.new_class_proximity * usual
    cohesion = mean_cohesion(target.directions, of_target.own, len(proximity))
    # Of a few rows the cohesion says little, and of one nothing.
    known = mean_cohesion(source.directions, labels, len(classes))[labels.bincount() >= _FEWEST_ROWS]
    if 2 * len(known) < len(classes):
        return None
    is_dense = cohesion >= rule.new_class_cohesion * known.median()
    is_new = (proximity < farthest) & is_dense & (of_target.sizes >= _FEWEST_ROWS)
    seen = float(is_new[of_target.own].double().mean())
    if seen < rule.least_new_share:
        return None
    power = _share_found(of_source, labels, classes, farthest)
    if power < rule.least_new_class_power:
        return None
    share = min(seen / power, _UPPER_QUARTILE)
    return NewClasses(share, seen, _num_apart(of_target.centroids[is_new], farthest))


def _num_apart(centroids: Tensor, farthest: float) -> int:
    """Number of clusters of centroids (K, F), where those that are nearer to each other count as one."""
    return int(connected_components((centroids @ centroids.T).numpy() >= farthest, directed=False)[0])


class _Clusters(NamedTuple):
    centroids: Tensor
    """(K, F)"""
    own: Tensor
    """(N,) the cluster of each row."""

    @property
    def sizes(self) -> Tensor:
        """(K,)"""
        return self.own.bincount(minlength=len(self.centroids))


def _clusters(directions: Tensor, starts: Tensor, num_more: int) -> _Clusters:
    rows = directions[sampled_rows(len(directions), _MOST_ROWS)]
    centroids = _with_further_clusters(rows, starts, num_more)
    return _Clusters(centroids, (directions @ centroids.T).argmax(dim=-1))


def _share_found(clusters: _Clusters, labels: Tensor, classes: Tensor, farthest: float) -> float:
    """Of classes (C, F), those that are so far from clusters of all others; with one that is: all may be alike."""
    members = one_hot(clusters.own, len(clusters.centroids)).T.double() @ one_hot(labels, len(classes)).double()
    is_other = (members.argmax(dim=-1) != torch.arange(len(classes)).unsqueeze(-1)) & (clusters.sizes > 0)
    nearest = torch.where(is_other, classes @ clusters.centroids.T, -1.0).amax(dim=-1)
    return float(((nearest < farthest).sum() + 1) / (len(classes) + 1))


def _with_further_clusters(rows: Tensor, starts: Tensor, num_more: int) -> Tensor:
    """Centroids of clusters of rows (N, F) that begin at starts (K, F) and at so many of the rows."""
    similarity = rows @ rows.T
    nearest, own = (rows @ starts.T).max(dim=-1)
    for number in range(len(starts), len(starts) + num_more):
        gain = (similarity - nearest.unsqueeze(-1)).clamp_min(0.0).sum(dim=0)
        to_start = similarity[int(gain.argmax())]
        own = torch.where(to_start > nearest, number, own)
        nearest = torch.maximum(nearest, to_start)
    units = UnitRows(rows.new_ones(()), rows.new_zeros(rows.shape[1]), rows, rows.new_ones(len(rows), 1))
    return fit_clusters(units, one_hot(own, len(starts) + num_more)).centroids


def mean_cohesion(directions: Tensor, own: Tensor, num_clusters: int) -> Tensor:
    """(K,) of clusters (N,) of rows (N, F): the mean cosine of a row with the sum of the others; 0 without rows."""
    sums = directions.new_zeros(num_clusters).index_add_(0, own, similarity_to_others(directions, own))
    return sums / own.bincount(minlength=num_clusters).clamp_min(1)
