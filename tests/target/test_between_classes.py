import pytest
import torch
from torch import Tensor

from shiftcal.target.between_classes import class_centroids, share_between_classes
from shiftcal.target.clusters import Clusters, unit_rows
from shiftcal.target.rule import TrustRule

LABELS = torch.arange(500) % 5
MEANS = 7 * torch.eye(5, 8, dtype=torch.float64)


def share(target: Tensor) -> float:
    """Of rows that are around these means (500, 8), in clusters that are known: those of the labels."""
    noise = torch.randn(500, 8, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    rows = unit_rows(target + noise)
    clusters = Clusters(rows.units, rows.centre, class_centroids(rows, LABELS).double())
    classes = class_centroids(unit_rows(MEANS[LABELS] + noise), LABELS)
    return share_between_classes(rows, clusters, classes, TrustRule().least_margin)


@pytest.mark.parametrize(("way", "expected"), [(0, 0), (0.2, 0), (0.4, 1), (0.5, 1), (0.6, 1), (0.8, 0), (1, 0)])
def test_clusters_on_their_way_to_the_next_class_are_between(way: float, expected: float) -> None:
    assert share((1 - way) * MEANS[LABELS] + way * MEANS[(LABELS + 1) % 5]) == expected


def test_what_all_clusters_share_does_not_matter() -> None:
    assert share(MEANS[LABELS] / 3 + 40) == 0


def test_clusters_on_the_other_side_are_of_no_class() -> None:
    assert share(-MEANS[LABELS]) == 1


def test_only_clusters_that_have_moved_count() -> None:
    moved, half_way = (LABELS < 2).unsqueeze(-1), (MEANS[LABELS] + MEANS[(LABELS + 1) % 5]) / 2
    assert share(torch.where(moved, half_way, MEANS[LABELS])) == pytest.approx(0.4, abs=0.02)


@pytest.mark.parametrize(("margin", "expected"), [(0.55, 0), (0.45, 1)])
def test_the_margin_between_orthogonal_classes(margin: float, expected: float) -> None:
    """There it is 1 less the tangent of the angle from the nearer one."""
    directions = torch.nn.functional.normalize(torch.tensor([[1.0, 1 - margin, 0.0]]), dim=-1)
    rows = unit_rows(torch.cat([directions, -directions]))
    clusters = Clusters(rows.units, rows.centre, directions.double())
    assert share_between_classes(rows, clusters, torch.eye(3), TrustRule().least_margin) == expected
