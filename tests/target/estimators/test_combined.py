import statistics
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from shiftcal.target.clusters import fit_clusters, unit_rows
from shiftcal.target.diagnosis import NewClasses
from shiftcal.target.domain_auc import domain_auc_of_outputs
from shiftcal.target.estimators.combined import Combined, chance_corrected_purity, held_out_purity, source_purity
from shiftcal.target.evidence import BeforeAdaptation, ObservedRows, ShiftEvidence

pytestmark = pytest.mark.usefixtures("coarse_estimate")
Make = Any


def test_accuracy_under_shift_is_found_and_the_interval_holds_it(make_rows: Make, make_evidence: Make) -> None:
    held_out = make_rows(200, wrong=0.03, seed=1)
    target, labels = make_rows(400, wrong=0.3, least_margin=4, moved=5.0, seed=2)
    found = Combined().diagnose(make_evidence(target, held_out=held_out))
    right = float((target.predicted == labels).double().mean())
    assert found.interval is not None
    assert found.interval[0] <= right <= found.interval[1]
    assert found.cluster_reliability > 0.9


@pytest.mark.parametrize(("label_probability", "share"), [(0.2, 0.3), (None, 0.0)])
def test_it_is_what_its_module_says_of_its_witnesses(
    make_rows: Make, make_evidence: Make, label_probability: float | None, share: float
) -> None:
    target, _ = make_rows(400, wrong=0.3, least_margin=4, seed=2)
    evidence = make_evidence(target)
    rule = Combined(purity_midpoint=0.9, purity_slope=2.0, novelty_slope=4.0, label_share=0.3)
    seen = rule.witnesses(evidence)
    seen = replace(seen, novelty=0.1, cluster_purity=0.7, importance_weighted_calibration=0.9, domain_auc=0.7)
    seen = replace(seen, label_probability=label_probability)
    found = rule.concluded(evidence, seen)
    outside, reliability = 0.4, 1 / (1 + 2.718281828459045**0.4)
    assert seen.second_model_agreement is not None
    support = (1 - outside) * 0.9 + outside * seen.second_model_agreement
    support = (1 - share) * support + share * (label_probability or 0.0)
    moved = evidence.structure.shifted.share
    changed = min(0.4 / max(moved, 0.2), 1.0)
    structure = statistics.median(seen.estimates())
    structure += changed * (statistics.median(seen.beyond_confidence()) - structure)
    structure -= 0.15 * max(2 * changed - 1, 0) * max(seen.held_out_accuracy - structure, 0)
    unlike = max(moved - 0.2, 0) / 0.8 if label_probability is None else max(2 * changed - 1, 0)
    support -= 0.25 * unlike * support * (1 - support)
    assert len(seen.beyond_confidence()) == 3
    assert len(seen.estimates()) == 5
    assert found.cluster_reliability == pytest.approx(reliability)
    assert found.accuracy == pytest.approx(reliability * structure + (1 - reliability) * support)


def _with_shifted_share(evidence: Any, share: float) -> Any:
    """The same where this share of the target is said to have shifted."""
    evidence.structure.__dict__["shifted"] = replace(evidence.structure.shifted, share=share)
    return evidence


@pytest.mark.parametrize(("auc", "missed"), [(0.5, 0.0), (0.7, 0.0), (0.9, 0.09), (1.0, 0.15)])
def test_of_a_drop_the_more_is_missed_the_more_a_shift_changes(
    make_rows: Make, make_evidence: Make, auc: float, missed: float
) -> None:
    """Clusters decide, and all of the target has shifted."""
    evidence, rule = _with_shifted_share(make_evidence(make_rows(100, seed=2)[0]), 1.0), Combined()
    said = dict.fromkeys(("calibrated_confidence", "thresholded_confidence", "optimal_transport"), 0.7)
    said |= dict.fromkeys(("cluster_agreement", "second_model_agreement"), 0.7)
    seen = replace(rule.witnesses(evidence), **said, domain_auc=auc, cluster_purity=9.0)
    dropped = rule.concluded(evidence, replace(seen, held_out_accuracy=0.9))
    assert dropped.accuracy == pytest.approx(0.7 - missed * 0.2)
    risen = rule.concluded(evidence, replace(seen, held_out_accuracy=0.6))
    assert risen.accuracy == pytest.approx(0.7)


@pytest.mark.parametrize(
    ("share", "auc", "asked", "excess"),
    [
        *((0.2, 0.5, False, 0.0), (0.6, 0.5, False, 0.125), (1.0, 0.5, False, 0.25)),
        *((1.0, 0.5, True, 0.0), (1.0, 0.9, True, 0.15)),
    ],
)
def test_held_out_rows_expect_too_much_of_a_target_that_they_are_not_like(
    make_rows: Make, make_evidence: Make, share: float, auc: float, asked: bool, excess: float
) -> None:
    """Clusters say nothing; labels of few columns do, but for a shift that changes what the classifier says."""
    evidence, rule = _with_shifted_share(make_evidence(make_rows(100, seed=2)[0]), share), Combined()
    seen = replace(rule.witnesses(evidence), novelty=0.0, cluster_purity=-99.0, domain_auc=auc)
    seen = replace(seen, importance_weighted_calibration=0.8, label_probability=0.8 if asked else None)
    found = rule.concluded(evidence, seen)
    assert found.accuracy == pytest.approx(0.8 - excess * 0.16)
    assert found.reach is not None
    of_a_row = (found.accuracy * (1 - found.accuracy)) ** 0.5
    circumstances = {"error": of_a_row * (1 / 100 + 1 / len(evidence.held_out_labels)) ** 0.5, "deviation": 0.0}
    change = abs(found.accuracy - seen.held_out_accuracy)
    below = rule.reach(**circumstances, change=change, unclustered=0.0 if asked else share * of_a_row)[0]
    assert found.reach[0] == pytest.approx(below)


def test_it_grows_with_each_witness(make_rows: Make, make_evidence: Make) -> None:
    target, _ = make_rows(400, wrong=0.3, least_margin=4, seed=2)
    evidence, rule = make_evidence(target), Combined(purity_midpoint=0.9, purity_slope=2.0)
    seen = replace(rule.witnesses(evidence), novelty=0.05, label_probability=0.8)
    plain = rule.concluded(evidence, seen).accuracy
    for name in (
        *("calibrated_confidence", "thresholded_confidence", "optimal_transport", "cluster_agreement"),
        *("second_model_agreement", "importance_weighted_calibration", "label_probability"),
    ):
        for value in (0.0, 1.0):
            found = rule.concluded(evidence, replace(seen, **{name: value})).accuracy
            assert found <= plain if value == 0 else found >= plain


@pytest.mark.parametrize("num_rows", [100, 1000])
def test_the_interval_is_wider_for_fewer_rows_differing_witnesses_and_a_larger_change(
    make_rows: Make, make_evidence: Make, num_rows: int
) -> None:
    target, _ = make_rows(num_rows, seed=2)
    evidence, rule = make_evidence(target), Combined()
    seen = replace(
        rule.witnesses(evidence),
        **dict.fromkeys(("calibrated_confidence", "thresholded_confidence", "optimal_transport"), 0.9),
        **dict.fromkeys(("cluster_agreement", "second_model_agreement", "importance_weighted_calibration"), 0.9),
        held_out_accuracy=0.9,
    )
    error = (0.9 * 0.1 * (1 / num_rows + 1 / 400)) ** 0.5
    circumstances = {"error": error, "change": 0.0, "deviation": 0.0, "unclustered": 0.0}
    seen = replace(seen, cluster_purity=9.0)
    assert rule.concluded(evidence, seen).reach == pytest.approx(rule.reach(**circumstances))
    changed = rule.concluded(evidence, replace(seen, held_out_accuracy=0.8)).reach
    assert changed == pytest.approx(rule.reach(**{**circumstances, "change": 0.1}))
    # One of six differs by .6, which has no say in the median.
    differing = rule.concluded(evidence, replace(seen, optimal_transport=0.3)).reach
    assert differing == pytest.approx(rule.reach(**{**circumstances, "deviation": 0.6 * 5**0.5 / 6}))
    unclustered = rule.concluded(evidence, replace(seen, cluster_purity=rule.purity_midpoint)).reach
    of_shifted = 0.5 * evidence.structure.shifted.share * 0.3
    assert unclustered == pytest.approx(rule.reach(**{**circumstances, "unclustered": of_shifted}))


def test_without_clusters_in_the_source_held_out_rows_decide(make_rows: Make, make_evidence: Make) -> None:
    source = make_rows(400, spread=500.0)
    target, _ = make_rows(400, wrong=0.3, spread=500.0, seed=2)
    found = Combined().diagnose(make_evidence(target, source=source))
    assert found.cluster_reliability < 0.2
    assert "held-out source rows" in found.verdict()


def test_labels_are_learned_where_clusters_do_not_decide_and_columns_are_few(
    make_rows: Make, make_evidence: Make
) -> None:
    def asked(spread: float, num_columns: int = 8, before: BeforeAdaptation | None = None) -> bool:
        def wider(rows: Any) -> Any:
            return replace(rows, features=torch.nn.functional.pad(rows.features, (0, num_columns - 8)))

        source, labels = make_rows(200, spread=spread)
        evidence = make_evidence(wider(make_rows(200, spread=spread, seed=2)[0]), source=(wider(source), labels))
        seen = Combined().of_known_classes(replace(evidence, before_adaptation=before)).witnesses
        assert seen is not None
        return seen.label_probability is not None

    assert asked(500.0)
    assert asked(500.0, 120)
    assert not asked(500.0, 121)
    assert not asked(500.0, before=BeforeAdaptation(0.9, 0.6))
    assert not asked(0.5)


def test_the_share_of_labels_is_as_fitted(make_rows: Make, make_evidence: Make) -> None:
    evidence, rule = make_evidence(make_rows(100, seed=2)[0]), Combined()
    seen = replace(rule.witnesses(evidence), novelty=0.0, cluster_purity=-9.0, importance_weighted_calibration=0.9)
    assert rule.concluded(evidence, replace(seen, label_probability=0.5)).accuracy == pytest.approx(0.6)


def test_an_unsure_classifier_is_not_held_down_to_its_confidence(make_rows: Make, make_evidence: Make) -> None:
    target, _ = make_rows(400, seed=2)
    source = make_rows(400)
    unsure = [replace(rows, logits=rows.logits / 8) for rows in (target, source[0])]
    found = Combined().diagnose(make_evidence(unsure[0], source=(unsure[1], source[1])))
    assert found.mean_confidence < 0.6
    assert found.accuracy > 0.95


def test_a_target_of_noise_is_said_to_be_outside_of_the_source(make_rows: Make, make_evidence: Make) -> None:
    rows, _ = make_rows(400, seed=2)
    noise = 40 * torch.randn(400, 8, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    chance = 6 * torch.eye(4, dtype=torch.float64)[torch.randint(4, (400,), generator=torch.Generator())]
    found = Combined().diagnose(make_evidence(replace(rows, features=noise, logits=chance)))
    assert found.kind_of_shift() == "outside"
    assert found.interval is not None
    assert found.interval[0] < 0.25
    assert "nothing bounds the error" in found.verdict()


@pytest.mark.parametrize(
    ("witness", "unbounded", "bounded"), [("between_classes", 0.61, 0.5), ("dispersion", 0.76, 0.7)]
)
def test_from_where_on_the_place_of_clusters_leaves_nothing_bounded(
    make_rows: Make, make_evidence: Make, witness: str, unbounded: float, bounded: float
) -> None:
    evidence, rule = make_evidence(make_rows(100, seed=2)[0]), Combined()
    seen = rule.witnesses(evidence)
    lowest = []
    for value in (unbounded, bounded):
        found = rule.concluded(evidence, replace(seen, **{witness: value}))
        assert found.interval is not None
        lowest.append(found.interval[0])
    assert lowest[0] == 0 < lowest[1]


def test_where_clusters_lie_between_classes_nothing_bounds_the_error(make_rows: Make, make_evidence: Make) -> None:
    rows, _ = make_rows(400, seed=2)
    half_way = rows.features.clone()
    half_way[:, :4] = (half_way[:, :4] + half_way[:, :4].roll(1, dims=1)) / 2
    found = Combined().diagnose(make_evidence(replace(rows, features=half_way)))
    assert found.kind_of_shift() == "outside"
    assert found.interval is not None
    assert found.interval[0] == 0
    assert "between those of the source's classes" in found.verdict()


@pytest.mark.parametrize("before", [None, BeforeAdaptation(1.0, 0.6)])
def test_rows_of_a_new_class_are_seen_and_bound_the_accuracy(
    make_rows: Make, make_evidence: Make, before: BeforeAdaptation | None
) -> None:
    """A quarter of the rows lies around a mean of its own, and is said to be of known classes."""
    target, _ = make_rows(400, wrong=0.02, seed=2)
    features = target.features.clone()
    new = torch.arange(400) >= 300
    features[new] = 0.5 * torch.randn(100, 8, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    features[new, 4] += 5
    evidence = replace(make_evidence(replace(target, features=features)), before_adaptation=before)
    found = Combined().diagnose(evidence)
    assert found.kind_of_shift() == "new classes"
    assert found.new_classes is not None
    assert found.new_classes.num_clusters == 1
    assert found.new_classes.seen_share == pytest.approx(0.25)
    unaware = Combined().of_known_classes(evidence)
    assert found.accuracy == min(unaware.accuracy, 0.75)
    assert found.interval is not None
    assert unaware.reach is not None
    assert found.interval[0] == pytest.approx(max(found.accuracy - unaware.reach[0] - found.new_classes.share, 0))
    assert found.interval[1] <= 0.75


def test_other_class_frequencies_are_corrected_for(make_rows: Make, make_evidence: Make, some_rows: Make) -> None:
    """Two of four classes are gone; nothing else has changed."""
    held_out = make_rows(800, wrong=0.05, seed=3)
    target, labels = make_rows(800, wrong=0.05, seed=4)
    kept = labels < 2
    found = Combined().diagnose(make_evidence(some_rows(target, kept), source=held_out))
    assert found.kind_of_shift() == "prior"
    assert found.prior_shift is not None
    assert found.accuracy == found.prior_shift.accuracy
    assert sum(found.prior_shift.frequencies[:2]) > 0.85


def test_known_classes_in_other_proportions_are_no_new_ones(
    make_rows: Make, make_evidence: Make, some_rows: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A third of the rows of a target with half of the classes was said to be of new ones."""
    claimed = NewClasses(share=0.4, seen_share=0.4, num_clusters=13)
    monkeypatch.setattr("shiftcal.target.estimators.combined.find_new_classes", lambda *_: claimed)
    target, labels = make_rows(800, wrong=0.05, seed=4)
    for kept, new in ((labels < 2, None), (labels < 4, claimed)):
        part = some_rows(target, kept)
        assert Combined().diagnose(make_evidence(part, source=make_rows(800, wrong=0.05, seed=3))).new_classes == new


def test_too_few_held_out_rows_are_said_to_be_too_few(make_rows: Make, make_evidence: Make) -> None:
    target, _ = make_rows(400, wrong=0.3, least_margin=4, seed=2)
    found = Combined().diagnose(make_evidence(target, held_out=make_rows(9, seed=1)))
    assert found.domain_auc is None
    assert "too few source rows were held out" in found.verdict()
    enough = Combined().diagnose(make_evidence(target, held_out=make_rows(11, seed=1)))
    assert enough.domain_auc is not None


def test_a_held_out_row_weighs_at_most_ten_times_as_much_as_on_average(make_rows: Make, make_evidence: Make) -> None:
    """Class 0 is predicted twenty times as often on the target as on the source."""
    rows, labels = make_rows(4000, least_margin=4, seed=1)
    rare = (labels != 0) | (torch.arange(4000) % 64 == 0)
    held_out = replace(rows, logits=rows.logits[rare], features=None), labels[rare]
    target, own = make_rows(2000, least_margin=3, seed=2)
    often = replace(target, logits=target.logits[(own == 0) | (torch.arange(2000) % 40 == 1)], features=None)
    expected = domain_auc_of_outputs(held_out[0].logits, often.logits, fewest=10, largest_weight=10.0)
    found = Combined().diagnose(make_evidence(often, held_out=held_out))
    assert found.domain_auc == expected
    assert domain_auc_of_outputs(held_out[0].logits, often.logits, fewest=10, largest_weight=8.0) != expected


def test_with_outputs_alone_held_out_rows_decide(make_rows: Make, make_evidence: Make) -> None:
    target, _ = make_rows(400, least_margin=4, seed=2)
    found = Combined().diagnose(make_evidence(replace(target, features=None)))
    assert found.witnesses is not None
    assert found.witnesses.cluster_agreement is None
    assert found.cluster_reliability == 0
    assert "probabilities alone" in found.verdict()


def test_with_outputs_alone_a_shift_that_they_show_counts_by_optimal_transport(
    make_rows: Make, make_evidence: Make
) -> None:
    target, _ = make_rows(400, least_margin=4, seed=2)
    evidence, rule = make_evidence(replace(target, features=None)), Combined()
    seen = replace(
        rule.witnesses(evidence), domain_auc=0.8, importance_weighted_calibration=0.9, optimal_transport=0.5
    )
    assert rule.concluded(evidence, seen).accuracy == pytest.approx(0.4 * 0.9 + 0.6 * 0.5)


def test_what_was_known_before_adaptation_counts(make_rows: Make, make_evidence: Make) -> None:
    """Half of the estimate, and all of the domain AUC: the outputs of an adapted classifier would show no shift."""
    target, _ = make_rows(400, seed=1)
    adapted = Combined().diagnose(replace(make_evidence(target), before_adaptation=BeforeAdaptation(0.4, 1.0)))
    assert (adapted.domain_auc, adapted.before_adaptation) == (1.0, 0.4)
    assert adapted.accuracy == pytest.approx((0.4 + 1.0) / 2, abs=0.01)
    assert "before the classifier was adapted" in adapted.verdict()


def test_of_an_adapted_classifier_clusters_that_rows_do_not_gather_around_say_nothing(
    make_rows: Make, make_evidence: Make
) -> None:
    """Its confidence stands in their place."""
    target, _ = make_rows(400, wrong=0.3, least_margin=2, seed=1)
    before = BeforeAdaptation(0.4, 1.0)
    gathered = Combined().diagnose(replace(make_evidence(target), before_adaptation=before))
    noise = 2 * torch.randn(400, 100, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    source, labels = make_rows(400)
    loose, own = (
        replace(rows, features=torch.cat([rows.features, part], dim=1))
        for rows, part in ((target, noise), (source, torch.zeros_like(noise)))
    )
    held_out = own.taken(np.arange(200))
    evidence = make_evidence(loose, source=(own, labels), held_out=(held_out, labels[:200]))
    found = Combined().diagnose(replace(evidence, before_adaptation=before))
    assert evidence.gathering == 0
    assert found.witnesses is not None
    assert found.witnesses.calibrated_confidence is not None
    assert found.accuracy == pytest.approx((0.4 + found.witnesses.calibrated_confidence) / 2, abs=0.01)
    assert gathered.witnesses is not None
    assert gathered.witnesses.cluster_agreement is not None
    assert gathered.accuracy == pytest.approx((0.4 + gathered.witnesses.cluster_agreement) / 2, abs=0.02)


def test_an_adapted_classifier_is_judged_in_the_clusters_of_the_source_reference(
    make_rows: Make, make_evidence: Make
) -> None:
    """Its own features agree with whatever it says; what was expected before hardly counts then."""
    target, _ = make_rows(400, wrong=0.3, least_margin=2, seed=1)
    source, labels = make_rows(400)
    apart = 30 * torch.eye(8, dtype=torch.float64)[7]
    confirming = replace(target, features=5 * torch.eye(4, 8, dtype=torch.float64)[target.predicted])
    judged = replace(confirming, reference_features=target.features + apart)
    known = replace(source, reference_features=source.features)
    before = BeforeAdaptation(0.1, 1.0)
    unaware = Combined().diagnose(replace(make_evidence(confirming), before_adaptation=before))
    evidence = replace(make_evidence(judged, source=(known, labels)), before_adaptation=before)
    found = Combined().diagnose(evidence)
    assert unaware.witnesses is not None
    assert unaware.witnesses.cluster_agreement == pytest.approx(1, abs=0.01)
    assert found.accuracy == pytest.approx(0.7, abs=0.05)


def test_purity_is_corrected_for_chance(make_rows: Make) -> None:
    rows, labels = make_rows(400)
    assert rows.features is not None
    seen = unit_rows(rows.features)
    clusters = fit_clusters(seen, rows.probabilities)
    assert chance_corrected_purity(seen, clusters, labels) == 1
    one = torch.zeros(400).long()
    assert chance_corrected_purity(seen, clusters, one) == 0
    # Half of the rows have labels of their cluster, the rest all the same one: .5 + .5 / 4 right, chance .625.
    mixed = torch.where(torch.arange(400) < 200, labels, 0)
    assert chance_corrected_purity(seen, clusters, mixed) == pytest.approx(0.0, abs=1e-9)


def test_rows_that_a_network_knows_by_heart_say_nothing_of_clusters() -> None:
    """Features that were learned with arbitrary labels have clusters of these on the rows of training alone."""
    torch.manual_seed(0)
    labels = torch.arange(300) % 3
    logits = 5 * torch.eye(3, dtype=torch.float64)[labels]
    noise = torch.randn(2, 300, 8, dtype=torch.float64)
    by_heart = noise[0] + 5 * torch.eye(3, 8, dtype=torch.float64)[labels]
    training, held_out = (ObservedRows(logits, torch.ones(300), rows) for rows in (by_heart, noise[1]))
    evidence = ShiftEvidence(held_out, labels, held_out, training, labels)
    assert source_purity(evidence) > 0.95
    assert abs(held_out_purity(evidence)) < 0.15
    assert held_out_purity(ShiftEvidence(training, labels, held_out, training, labels)) == pytest.approx(
        source_purity(evidence)
    )
