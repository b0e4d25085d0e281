"""Whether rows of a target gather around their clusters as those of the source do around theirs.

    dispersion = P( cos of a source row with the others of its cluster > cos of a target row with those of its own )

1/2 where clusters are as dense as on the source, however far a shift has brought them; near 1 where there is nothing
that clusters could be of, as in noise, or in columns that no longer belong to the same rows. Each column may look as
it did on the source then, and no row need be far from all rows of the source.

The fewer others a row has in its cluster, the less their sum says where it lies: as many rows of either domain are
compared. Rows that are alone in their clusters say nothing, on either side.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity

from shiftcal.target.clusters import Clusters, UnitRows
from shiftcal.target.sampling import sampled_rows

# Mean cosine of a row with the others of its cluster, up to which clusters say nothing of classes, and from which on
# they do. Judged by labels of the targets on what clusters add to labels of `drst`: on newsgroups (.27; they cost 3
# to 5 points), tweets and editorials (.26 and .30), features of CIFAR-10 and STL-10 (.39; no difference) and of
# digits (.61; they are worth 2 points).
_LOOSE, _TIGHT = 0.3, 0.5


def dispersion(source: UnitRows, source_clusters: Clusters, target: UnitRows, target_clusters: Clusters) -> float:
    """An AUC, of rows of either domain in clusters of their own."""
    most = min(len(source.directions), len(target.directions))
    of_source = _similarity(source, source_clusters, most).sort().values
    of_target = _similarity(target, target_clusters, most)
    below, not_above = (torch.searchsorted(of_source, of_target, right=right) for right in (False, True))
    above = len(of_source) - (below + not_above).double() / 2
    return float(above.mean() / len(of_source))


def similarity_to_others(directions: Tensor, own: Tensor) -> Tensor:
    """Cosine (N,) of each row (N, F) with the sum of the others of its cluster (N,): itself would say nothing."""
    sums = directions.new_zeros(int(own.max()) + 1, directions.shape[1]).index_add_(0, own, directions)
    others = sums[own] - directions
    return cosine_similarity(others, directions)


def gathering(rows: UnitRows, clusters: Clusters) -> float:
    """How far rows gather around clusters of their own, from 0 to 1."""
    cosine = float(similarity_to_others(rows.directions, clusters.nearest(rows.directions)).mean())
    return min(max((cosine - _LOOSE) / (_TIGHT - _LOOSE), 0.0), 1.0)


def _similarity(rows: UnitRows, clusters: Clusters, most: int) -> Tensor:
    directions = rows.directions[sampled_rows(len(rows.directions), most)]
    return similarity_to_others(directions, clusters.nearest(directions))
