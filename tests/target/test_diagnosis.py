from dataclasses import replace
from typing import Any

import pytest

from shiftcal.target.diagnosis import Diagnosis, NewClasses, PriorShift, Witnesses
from shiftcal.target.rule import TrustRule

SEEN = Witnesses(
    held_out_accuracy=0.9,
    calibrated_confidence=0.85,
    novelty=0.01,
    domain_auc=0.8,
    cluster_agreement=0.7,
    cluster_purity=0.8,
    importance_weighted_calibration=0.8,
    second_model_agreement=0.72,
    thresholded_confidence=0.7,
    optimal_transport=0.6,
)
FOUND = Diagnosis(0.7, 0.9, reach=(0.1, 0.1), witnesses=SEEN, cluster_reliability=0.99)
NEW = NewClasses(share=0.2, seen_share=0.15, num_clusters=3)
PRIOR = PriorShift((0.8, 0.2), 0.3, 0.02, 0.7, 0.51, 0.75, explains=True)


@pytest.mark.parametrize(
    ("changes", "kind", "words"),
    [
        ({}, "covariate", "on the target's own clusters (70.0%)"),
        ({"cluster_reliability": 0.1}, "covariate", "held-out source rows that are like it"),
        ({"witnesses": replace(SEEN, domain_auc=0.54)}, "none", "looks as on the source"),
        ({"shifted_share": 0.3}, "part", "About 30% of its rows have shifted"),
        ({"prior_shift": PRIOR}, "prior", "Other classes are frequent"),
        ({"witnesses": replace(SEEN, novelty=0.6)}, "outside", "60% of the target lies outside"),
        (
            {"witnesses": replace(SEEN, between_classes=0.7), "is_between_classes": True},
            "outside",
            "70% of the target lies in clusters between",
        ),
        ({"is_dispersed": True}, "outside", "or classes that the source does not have"),
        (
            {"new_classes": NEW},
            "new classes",
            "About 20% of its rows seem to be of new classes: 15% gather into 3 clus",
        ),
        ({"new_classes": replace(NEW, num_clusters=1)}, "new classes", "gather into a cluster far from all classes"),
        ({"new_classes": NEW, "is_dispersed": True}, "outside", "gather around no clusters"),
        ({"witnesses": replace(SEEN, domain_auc=None)}, "covariate", "too few source rows were held out"),
        ({"has_held_out": False}, "covariate", "no source rows were held out"),
        ({"before_adaptation": 0.6}, "covariate", "between 60.0%"),
        ({"witnesses": replace(SEEN, cluster_agreement=None)}, "covariate", "probabilities alone"),
    ],
)
def test_the_verdict_says_what_kind_of_shift_it_is_and_what_the_estimate_rests_on(
    changes: dict[str, Any], kind: str, words: str
) -> None:
    found = replace(FOUND, **changes)
    assert found.kind_of_shift() == kind
    assert words in found.verdict()


def test_a_single_estimator_is_said_to_stand_alone() -> None:
    assert "a single estimator" in Diagnosis(0.7, 0.9).verdict()
    assert Diagnosis(0.7, 0.9).interval is None


def test_the_verdict_gives_the_interval_and_what_it_cannot_know() -> None:
    assert "70.0% (90 % interval: 60.0% to 80.0%)" in FOUND.verdict()
    assert "concept shift" in FOUND.verdict()


def test_of_rows_outside_the_source_all_may_be_wrong() -> None:
    found = replace(FOUND, witnesses=replace(SEEN, novelty=0.5))
    assert found.interval == pytest.approx((0.35, 0.8))
    assert replace(FOUND, reach=(3.0, 3.0)).interval == (0, 1)


@pytest.mark.parametrize(("novelty", "is_outside"), [(0.45, False), (0.55, True)])
def test_half_of_the_rows_outside_are_most_of_them_by_the_rule(novelty: float, is_outside: bool) -> None:
    found = replace(
        FOUND, witnesses=replace(SEEN, novelty=novelty), mostly_outside=TrustRule().mostly_outside, reach=(0.0, 0.0)
    )
    assert found.is_outside is is_outside
    assert found.interval == pytest.approx((0.7 * (1 - novelty) if is_outside else 0.7, 0.7))


def test_rows_of_new_classes_bound_the_accuracy_and_the_interval_reaches_down_by_them() -> None:
    """A fifth of the rows, of which .15 are seen."""
    found = replace(FOUND, is_dispersed=True).with_new_classes(NEW)
    assert found.accuracy == 0.7
    assert found.interval == pytest.approx((0.7 - 0.1 - 0.2, 0.7 + 0.1))
    assert found.kind_of_shift() == "new classes"
    surer = replace(FOUND, accuracy=0.95).with_new_classes(NEW)
    assert surer.accuracy == surer.interval[1] == pytest.approx(0.85)  # type: ignore[index]


def test_an_estimate_that_is_moved_is_known_less_well_by_that() -> None:
    moved = FOUND.moved_to(0.6)
    assert moved.accuracy == 0.6
    assert moved.reach == pytest.approx((0.2, 0.2))


@pytest.mark.parametrize(
    ("reliability", "confidence", "expected"),
    [
        (0.0, 0.75, 0.75),  # within the interval nothing speaks against it
        (0.0, 0.95, 0.8),
        (0.0, 0.2, 0.6),
        (1.0, 0.75, 0.7),
        (0.5, 0.95, 0.75),
    ],
)
def test_without_clusters_confidence_is_moved_only_as_far_as_the_interval_asks(
    reliability: float, confidence: float, expected: float
) -> None:
    found = Diagnosis(0.7, confidence, reach=(0.1, 0.1), cluster_reliability=reliability)
    assert found.confidence_to_reach == pytest.approx(expected)
    # What is sure of labels that it gave itself says nothing by that.
    assert replace(found, before_adaptation=0.6).confidence_to_reach == 0.7
    assert replace(found, reach=None).confidence_to_reach == 0.7
