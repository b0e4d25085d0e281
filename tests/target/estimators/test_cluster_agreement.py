from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from shiftcal.target.clusters import unit_rows
from shiftcal.target.estimators.cluster_agreement import ClusterAgreement, agrees_with_clusters
from shiftcal.target.evidence import ObservedRows
from shiftcal.target.rule import TrustRule

Make = Any
FIELDS = ("logits", "target_probability", "features")
Some = Callable[[ObservedRows, Tensor], ObservedRows]


def test_errors_that_cut_across_the_clusters_are_seen(make_rows: Make, make_evidence: Make) -> None:
    target, labels = make_rows(400, wrong=0.3, moved=5.0, seed=2)
    right = float((target.predicted == labels).double().mean())
    assert ClusterAgreement().estimate(make_evidence(target)) == pytest.approx(right, abs=0.01)


def test_it_is_the_mean_over_rows_of_one_function(make_rows: Make, make_evidence: Make) -> None:
    """The one that the fallback asks too."""
    target, _ = make_rows(400, wrong=0.3, moved=5.0, seed=2)
    evidence = make_evidence(target)
    assert target.features is not None
    units = torch.ones(8).double()
    agrees = agrees_with_clusters(
        unit_rows(target.features, units), target.logits, evidence.source_labels, TrustRule()
    )
    assert ClusterAgreement().estimate(evidence) == pytest.approx(float(agrees.double().mean()), abs=1e-3)


def test_of_a_mixed_stream_only_the_shifted_part_is_asked(make_rows: Make, make_evidence: Make) -> None:
    """A third is wrong on the half that has moved; of the other half held-out rows know better."""
    held_out = make_rows(600, wrong=0.1, seed=1)
    moved, labels = make_rows(300, wrong=0.35, moved=6.0, seed=2)
    same, _ = make_rows(300, wrong=0.1, seed=3)
    stream = ObservedRows(*(torch.cat([getattr(moved, name), getattr(same, name)]) for name in FIELDS))
    evidence = make_evidence(stream, source=held_out)
    assert evidence.structure.shifted.share == pytest.approx(0.5, abs=0.06)
    right = float((moved.predicted == labels).double().mean())
    assert ClusterAgreement().estimate(evidence) == pytest.approx((right + evidence.held_out_accuracy) / 2, abs=0.03)


def test_a_row_has_no_part_in_the_cluster_that_judges_it(make_rows: Make) -> None:
    """Of pure noise with few rows for each class clusters confirm nothing."""
    generator = torch.Generator().manual_seed(0)
    features = torch.randn(60, 100, generator=generator, dtype=torch.float64)
    logits = 8 * torch.eye(20, dtype=torch.float64)[torch.randint(20, (60,), generator=generator)]
    labels = torch.arange(20).repeat(5)
    agrees = agrees_with_clusters(unit_rows(features), logits, labels, TrustRule())
    assert float(agrees.double().mean()) < 0.3


def half(make_rows: Make, some_rows: Some, taken: float) -> tuple[ObservedRows, Tensor]:
    """Of four classes two occur, loosely; a share of their rows is taken for the others, as some always are."""
    target, labels = make_rows(4000, least_margin=3, spread=2.0, seed=2)
    rows, own = some_rows(target, labels < 2), labels[labels < 2]
    others = torch.arange(len(own)) < taken * len(own)
    shuffled = others[torch.randperm(len(own), generator=torch.Generator().manual_seed(0))]
    logits = torch.where(shuffled.unsqueeze(-1), rows.logits.roll(2, dims=-1), rows.logits)
    return replace(rows, logits=logits), own


@pytest.mark.parametrize(("taken", "without_others"), [(0.03, True), (0.066, True), (0.084, False)])
def test_classes_that_the_target_lacks_have_no_cluster(
    make_rows: Make, make_evidence: Make, some_rows: Some, taken: float, without_others: bool
) -> None:
    """Each of the two has a quarter of the source: at 7.5 % in all, each has .15 times its frequency there."""
    rows, labels = half(make_rows, some_rows, taken)
    found = ClusterAgreement().estimate(make_evidence(rows))
    right = float((rows.predicted == labels).double().mean())
    assert (abs(found - right) < 0.04) is without_others


@pytest.mark.parametrize(("num_absent", "counts"), [(2, True), (3, False)])
def test_of_more_than_two_thirds_of_the_source_none_is_taken_to_be_absent(
    make_rows: Make, some_rows: Some, num_absent: int, counts: bool
) -> None:
    """With all classes a cluster of every class is looked for among the rows of a few."""
    target, labels = make_rows(4000, least_margin=3, spread=2.0, seed=2)
    rows = some_rows(target, labels < 4 - num_absent)
    # A single class that is left has nobody to disagree with: two, of which one is hardly predicted.
    assert rows.features is not None
    rule, units = TrustRule(), torch.ones(8).double()
    uniform = torch.arange(4).repeat(100)
    found = agrees_with_clusters(unit_rows(rows.features, units), rows.logits, uniform, rule).double().mean()
    everything = (
        agrees_with_clusters(unit_rows(rows.features, units), rows.logits, uniform, replace(rule, most_absent=0.0))
        .double()
        .mean()
    )
    assert bool(found > everything + 0.05) is counts


@pytest.mark.parametrize(("share", "counts"), [(0.6, True), (0.72, False)])
def test_the_share_that_may_be_absent_is_of_the_source_not_of_classes(
    make_rows: Make, some_rows: Some, share: float, counts: bool
) -> None:
    target, labels = make_rows(4000, least_margin=3, spread=2.0, seed=2)
    rows = some_rows(target, labels < 2)
    assert rows.features is not None
    absent = round(1000 * share)
    source = torch.cat([torch.arange(1000 - absent) % 2, 2 + torch.arange(absent) % 2])
    rule, units = TrustRule(), torch.ones(8).double()
    found = agrees_with_clusters(unit_rows(rows.features, units), rows.logits, source, rule).double().mean()
    assert bool(found > 0.95) is counts


def test_a_classifier_that_ran_into_one_class_is_not_believed(make_rows: Make, make_evidence: Make) -> None:
    target, labels = make_rows(800, least_margin=3, moved=5.0, seed=2)
    # Each row keeps a trace of its class, by which the clusters can be told.
    collapsed = replace(target, logits=0.5 * target.logits + torch.tensor([9.0, 0, 0, 0]).double())
    assert (collapsed.predicted == 0).all()
    found = ClusterAgreement().estimate(make_evidence(collapsed))
    assert found == pytest.approx(float((labels == 0).double().mean()), abs=0.1)


def test_classes_that_occur_nowhere_change_nothing(make_rows: Make, make_evidence: Make) -> None:
    """A model may know classes that neither sample has."""
    source, labels = make_rows(400)
    target, _ = make_rows(400, wrong=0.3, seed=2)

    def with_more(rows: ObservedRows) -> ObservedRows:
        return replace(rows, logits=torch.cat([rows.logits, torch.full((len(rows.logits), 8), -9.0)], dim=1))

    plain = ClusterAgreement().estimate(make_evidence(target, source=(source, labels)))
    more = ClusterAgreement().estimate(make_evidence(with_more(target), source=(with_more(source), labels)))
    assert more == pytest.approx(plain, abs=0.01)
