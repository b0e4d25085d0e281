import math

import pytest
import torch
from torch import Tensor
from torch.nn.functional import normalize, one_hot

from shiftcal.target.between_classes import class_centroids
from shiftcal.target.clusters import UnitRows, fit_clusters
from shiftcal.target.diagnosis import NewClasses
from shiftcal.target.new_classes import find_new_classes, mean_cohesion
from shiftcal.target.rule import TrustRule

CLASSES, DIM = 5, 256
AXES = torch.eye(DIM)


def around(centre: Tensor, num_rows: int, cosine: float = 0.95, seed: int = 0) -> Tensor:
    """Rows of this cosine with a centre, on all sides of it."""
    noise = torch.randn(num_rows, DIM, generator=torch.Generator().manual_seed(seed))
    noise = normalize(noise - (noise @ centre).unsqueeze(-1) * centre, dim=-1)
    return cosine * centre + math.sqrt(1 - cosine**2) * noise


def between(centre: Tensor, other: Tensor, cosine: float) -> Tensor:
    """A direction of this cosine with a centre, towards another that is orthogonal."""
    return cosine * centre + math.sqrt(1 - cosine**2) * other


def as_rows(directions: Tensor) -> UnitRows:
    return UnitRows(torch.ones(()), torch.zeros(DIM), directions, torch.ones(len(directions), 1))


def found(
    new: Tensor, *, centres: Tensor = AXES[:CLASSES], moved_to: float = 1.0, known_rows: int = 100
) -> NewClasses | None:
    """Of a target with 100 rows of each class, moved to a cosine with their centre, and rows of a new one."""
    labels = torch.arange(len(centres)).repeat_interleave(known_rows)
    source = torch.cat([around(centre, known_rows, seed=number) for number, centre in enumerate(centres)])
    moved = [between(centre, AXES[20 + number], moved_to) for number, centre in enumerate(centres)]
    target = torch.cat([*(around(centre, 100, seed=9 + number) for number, centre in enumerate(moved)), new])
    said = one_hot((target @ centres.T).argmax(dim=-1), len(centres)).float()
    rows, classes = as_rows(source), class_centroids(as_rows(source), labels)
    clusters = fit_clusters(as_rows(target), said)
    return find_new_classes(rows, labels, classes, as_rows(target), clusters, TrustRule())


def test_rows_of_new_classes_are_found_and_counted() -> None:
    seen = found(torch.cat([around(AXES[10], 60), around(AXES[11], 40)]))
    assert seen is not None
    assert seen.num_clusters == 2
    assert seen.share == seen.seen_share == pytest.approx(1 / 6)


def test_a_cluster_that_was_found_in_parts_is_one() -> None:
    seen = found(torch.cat([around(between(AXES[10], AXES[11], cosine), 50) for cosine in (0.5, 1.0)]))
    assert seen is not None
    assert seen.seen_share == pytest.approx(1 / 6)
    assert seen.num_clusters == 1


def test_of_classes_with_single_rows_nothing_is_known_of_how_dense_they_are() -> None:
    new = around(AXES[10], 100)
    assert found(new, known_rows=5) is not None
    assert found(new, known_rows=1) is None


def test_without_any_nothing_is_found() -> None:
    assert found(torch.empty(0, DIM)) is None


@pytest.mark.parametrize(("proximity", "is_found"), [(0.41, True), (0.49, False)])
def test_a_cluster_near_a_class_is_not_new(proximity: float, is_found: bool) -> None:
    assert (found(around(between(AXES[0], AXES[10], proximity), 80)) is not None) is is_found


@pytest.mark.parametrize(("moved_to", "is_found"), [(0.84, True), (0.68, False)])
def test_where_all_classes_have_moved_far_nothing_is_said(moved_to: float, is_found: bool) -> None:
    assert (found(around(AXES[10], 80), moved_to=moved_to) is not None) is is_found


@pytest.mark.parametrize(("cosine", "is_found"), [(0.9, True), (0.7, False)])
def test_rows_that_lie_scattered_are_of_no_class(cosine: float, is_found: bool) -> None:
    """Those of the source have a cosine of .95 with their class."""
    assert (found(around(AXES[10], 80, cosine=cosine)) is not None) is is_found


@pytest.mark.parametrize(("num_rows", "is_found"), [(29, True), (26, False)])
def test_a_few_rows_are_not_enough(num_rows: int, is_found: bool) -> None:
    """Of 529 and 526."""
    assert (found(around(AXES[10], num_rows)) is not None) is is_found


def test_classes_that_are_alike_say_how_much_is_not_seen() -> None:
    """Two of five are too near to each other to be found: with the one that is added, 4 of 6 would be."""
    centres = AXES[:CLASSES].clone()
    centres[1] = between(AXES[0], AXES[1], 0.7)
    seen = found(around(AXES[10], 100), centres=centres)
    assert seen is not None
    assert seen.share == pytest.approx(seen.seen_share * 6 / 4)


@pytest.mark.parametrize(("num_alike", "num_apart", "is_found"), [(6, 1, True), (4, 0, False)])
def test_where_few_of_the_sources_own_classes_would_be_found_none_is_new(
    num_alike: int, num_apart: int, is_found: bool
) -> None:
    """With the one that is added, 2 of 8 would be, or 1 of 5."""
    alike = [between(AXES[9], AXES[number], 0.7) for number in range(num_alike)]
    centres = torch.stack([*alike, *AXES[12 : 12 + num_apart]])
    assert (found(around(AXES[10], 100), centres=centres) is not None) is is_found


def test_of_a_class_in_two_parts_neither_is_new() -> None:
    """Half of the first class lies elsewhere, on the source too."""
    labels = torch.arange(CLASSES).repeat_interleave(100)
    parts = [
        torch.cat([around(AXES[number], 100, seed=10 * seed + number) for number in range(CLASSES)])
        for seed in (1, 2)
    ]
    for seed, part in enumerate(parts):
        part[50:100] = around(AXES[10], 50, seed=seed)
    source, target = map(as_rows, parts)
    clusters = fit_clusters(target, one_hot(labels, CLASSES).float())
    assert find_new_classes(source, labels, class_centroids(source, labels), target, clusters, TrustRule()) is None


def test_of_too_few_rows_nothing_is_said() -> None:
    labels = torch.arange(CLASSES).repeat(5)
    source = as_rows(normalize(AXES[labels] + 0.01, dim=-1))
    target = as_rows(around(AXES[10], 40))
    clusters = fit_clusters(target, torch.rand(40, CLASSES, generator=torch.Generator().manual_seed(0)))
    assert find_new_classes(source, labels, class_centroids(source, labels), target, clusters, TrustRule()) is None


def test_cohesion_is_the_mean_cosine_with_the_others() -> None:
    rows = normalize(torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [1.0, 0.0]]), dim=-1)
    own = torch.tensor([0, 0, 2, 2])
    assert mean_cohesion(rows, own, 4).tolist() == pytest.approx([0.0, 0.0, 0.5**0.5, 0.0], abs=1e-6)
