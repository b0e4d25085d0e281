from dataclasses import replace

import pytest

from shiftcal.target.diagnosis import Diagnosis, NewClasses, PriorShift, Witnesses
from shiftcal.target.findings import AdaptationCheck, TargetFindings

SEEN = Witnesses(held_out_accuracy=0.9, calibrated_confidence=0.85, novelty=0.01, cluster_agreement=0.7)
FOUND = Diagnosis(0.7, 0.9, reach=(0.1, 0.1), witnesses=SEEN, cluster_reliability=0.4)
NEW = NewClasses(share=0.2, seen_share=0.15, num_clusters=3)
PRIOR = PriorShift((0.8, 0.2), 0.3, 0.02, 0.7, 0.51, 0.75, explains=True)
CHECK = AdaptationCheck(0.6, 0.7, 0.001, could_judge=True, fell_back=True)


def test_findings_survive_being_written_as_plain_values() -> None:
    known = replace(FOUND, prior_shift=PRIOR, new_classes=NEW)
    for findings in (TargetFindings(), TargetFindings(FOUND), TargetFindings(known, CHECK)):
        assert TargetFindings.from_plain(findings.as_plain()) == findings


def test_numbers_are_flat_and_leave_out_what_is_not_known() -> None:
    assert TargetFindings(replace(FOUND, new_classes=NEW)).numbers()["new_class_share"] == 0.2
    numbers = TargetFindings(FOUND, CHECK).numbers()
    assert numbers["estimated_accuracy"] == 0.7
    assert (numbers["estimated_accuracy_low"], numbers["estimated_accuracy_high"]) == pytest.approx((0.6, 0.8))
    assert numbers["cluster_agreement"] == 0.7
    assert numbers["fell_back"] == 1.0
    assert "before_adaptation" not in numbers
    assert "mean_confidence" not in numbers
    assert all(isinstance(value, float) for value in numbers.values())
    assert TargetFindings().numbers() == {}


@pytest.mark.parametrize(
    ("check", "words"),
    [
        (CHECK, "FELL BACK to the source alone"),
        (AdaptationCheck(0.6, 0.7, 0.2, could_judge=False, fell_back=False), "could not be judged"),
        (
            AdaptationCheck(0.8, 0.7, 1.0, could_judge=False, fell_back=True),
            "the classes form no clusters",
        ),
        (AdaptationCheck(0.8, 0.7, 1.0, could_judge=True, fell_back=False), "no harm"),
    ],
)
def test_verdicts_say_first_whether_adaptation_was_kept(check: AdaptationCheck, words: str) -> None:
    first, second = TargetFindings(FOUND, check).verdicts()
    assert words in first
    assert "70.0%" in second
