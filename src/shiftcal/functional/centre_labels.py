"""Labels of target rows from the centres of their own features, and which of them the source agrees with.

Labels by centres: Liang, Hu, Feng, "Do We Really Need to Access the Source Data? Source Hypothesis Transfer for
Unsupervised Domain Adaptation", ICML 2020. Agreement in two ways: Xu et al., "CDTrans: Cross-domain Transformer for
Unsupervised Domain Adaptation", ICLR 2022.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import normalize, one_hot

# Rows whose similarities to all others are held at a time: whole domains would take gigabytes.
_ROWS_AT_ONCE = 1024


def centre_similarities(features: Tensor, probabilities: Tensor) -> Tensor:
    """Cosine (N, C) of each row with the centre of each class; -inf for a class that no row belongs to.

    Centres are means of unit-length features, first weighted by the probabilities, then of the rows that are nearest
    to these. Classes that no row is predicted as have no centre.

    Args:
        features: (N, F).
        probabilities: (N, C) of a classifier.
    """
    directions = normalize(features, dim=-1)
    num_classes = probabilities.shape[1]
    predicted = one_hot(probabilities.argmax(dim=-1), num_classes).any(dim=0)
    nearest = _similarities(directions, probabilities * predicted).argmax(dim=-1)
    return _similarities(directions, one_hot(nearest, num_classes).to(features))


def agree_both_ways(
    source_features: Tensor, source_labels: Tensor, target_features: Tensor, target_labels: Tensor
) -> Tensor:
    """Which target rows (M,) are in a pair of nearest neighbours, by cosine, that has one label.

    From the target: a row and the source row nearest to it. From the source: a source row and the target row nearest
    to it. One such pair is enough.

    Args:
        source_features: (N, F).
        source_labels: (N,).
        target_features: (M, F).
        target_labels: (M,) that the rows have been given.
    """
    source, target = normalize(source_features, dim=-1), normalize(target_features, dim=-1)
    agrees = source_labels[_nearest(target, source)] == target_labels
    reached = _nearest(source, target)
    agrees[reached[target_labels[reached] == source_labels]] = True
    return agrees


def _similarities(directions: Tensor, memberships: Tensor) -> Tensor:
    """Cosine (N, C) of unit vectors (N, F) with their means weighted by (N, C)."""
    centres = normalize(memberships.T @ directions, dim=-1)
    return (directions @ centres.T).masked_fill(memberships.sum(dim=0) == 0, -torch.inf)


def _nearest(directions: Tensor, others: Tensor) -> Tensor:
    """(N,) the number of the most similar of (M, F) for each of (N, F), all of unit length."""
    parts = torch.split(directions, _ROWS_AT_ONCE)
    return torch.cat([(part @ others.T).argmax(dim=-1) for part in parts])
