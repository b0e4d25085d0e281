from dataclasses import replace

import pytest

from shiftcal.target.diagnosis import AdaptationCheck, Diagnosis, TargetFindings

FOUND = Diagnosis(
    0.7,
    0.9,
    difference_of_confidences=0.85,
    cluster_agreement=0.7,
    cluster_purity=0.8,
    cluster_compactness=0.6,
    domain_auc=0.8,
    trust=1.0,
)
CHECK = AdaptationCheck(0.6, 0.7, 0.001, could_judge=True, fell_back=True)


@pytest.mark.parametrize(
    ("trust", "auc", "words"),
    [
        (0.9, 0.95, "target's own clusters"),
        (0.1, 0.9, "Take it with care"),
        (0.1, 0.56, "Take it with care"),
        (0.0, 0.54, "looks as on the source"),
    ],
)
def test_the_verdict_says_what_the_estimate_rests_on(trust: float, auc: float, words: str) -> None:
    assert words in replace(FOUND, trust=trust, domain_auc=auc).verdict()


def test_the_verdict_says_where_the_estimate_is_held_down_to_the_confidence() -> None:
    for accuracy, held_down in ((0.7, False), (0.49, True)):
        assert ("held down" in replace(FOUND, accuracy=accuracy).verdict()) is held_down


def test_the_verdict_says_where_nothing_was_held_out_or_one_estimator_was_asked() -> None:
    assert "no source rows were held out" in replace(FOUND, has_held_out=False).verdict()
    assert "a single estimator" in Diagnosis(0.7, 0.9).verdict()


def test_findings_survive_being_written_as_plain_values() -> None:
    for findings in (TargetFindings(), TargetFindings(FOUND), TargetFindings(FOUND, CHECK)):
        assert TargetFindings.from_plain(findings.as_plain()) == findings


def test_numbers_are_flat_and_leave_out_what_is_not_known() -> None:
    numbers = TargetFindings(FOUND, CHECK).numbers()
    assert numbers["estimated_accuracy"] == 0.7
    assert numbers["fell_back"] == 1.0
    assert "thresholded_confidence" not in numbers
    assert "mean_confidence" not in numbers
    assert TargetFindings().numbers() == {}


@pytest.mark.parametrize(
    ("check", "words"),
    [
        (CHECK, "FELL BACK to the source alone"),
        (AdaptationCheck(0.6, 0.7, 0.2, could_judge=False, fell_back=False), "could not be judged"),
        (AdaptationCheck(0.8, 0.7, 1.0, could_judge=True, fell_back=False), "no harm"),
    ],
)
def test_verdicts_say_first_whether_adaptation_was_kept(check: AdaptationCheck, words: str) -> None:
    first, second = TargetFindings(FOUND, check).verdicts()
    assert words in first
    assert "70.0%" in second
    assert "clusters" in second
