"""How much of a target lies between the classes of the source: clusters that have moved from one towards another.

    margin = (cos_1 - cos_2) / ( cos_1 (1 - cos_12) )

of a cluster of the target, with cos_1 and cos_2 the similarity of its centroid to the two classes of the source that
are nearest, and cos_12 theirs to each other: 1 where it points to one class, however far the shift has brought all
of them, 0 half way between two, and below 1/2 from a third of the way on. There the structure of the target does not
say which class its rows are of. A cluster that has come near the next class is not to be told from that class.
"""

from __future__ import annotations

from torch import Tensor
from torch.nn.functional import normalize, one_hot

from shiftcal.target.clusters import Clusters, UnitRows

_LEAST_SIMILARITY = 1e-6


def share_between_classes(rows: UnitRows, clusters: Clusters, classes: Tensor, least_margin: float) -> float:
    """Of rows, the share in clusters of a smaller margin between classes: centroids (C, F) of the source."""
    similarity = clusters.centroids.float() @ classes.T
    (first, second), nearest = (part.T for part in similarity.topk(2, dim=-1))
    of_each_other = (classes[nearest[0]] * classes[nearest[1]]).sum(dim=-1)
    apart = first * (1 - of_each_other)
    # One that points away from all classes is of none.
    is_between = (apart < _LEAST_SIMILARITY) | (first - second < least_margin * apart)
    return float(is_between[clusters.nearest(rows.directions)].double().mean())


def class_centroids(rows: UnitRows, labels: Tensor) -> Tensor:
    """(C, F) of unit length, of the classes that labelled rows have."""
    members = one_hot(labels).float()
    return normalize(members[:, members.any(dim=0)].T @ rows.directions, dim=-1)
