import numpy as np
import pytest

from shiftcal.target.diagnosis import Diagnosis
from shiftcal.target.findings import TargetFindings
from shiftcal.target.input_checks import InputChecks, check_inputs

GENERATOR = np.random.default_rng(0)
SOURCE = GENERATOR.normal(size=(500, 3))


@pytest.mark.parametrize(
    ("kind", "change", "share"),
    [
        ("unit", lambda x: x * 1000, 1.0),
        ("unit", lambda x: x / 1000, 1.0),
        ("range", lambda x: np.where(np.arange(400) < 80, x + 100, x), 0.2),
        ("constant", lambda x: 0 * x + 0.5, 1.0),
        ("missing", lambda x: np.where(np.arange(400) < 100, np.nan, x), 0.25),
    ],
)
def test_what_is_odd_about_a_column(kind: str, change: object, share: float) -> None:
    assert callable(change)
    target = GENERATOR.normal(size=(400, 3))
    target[:, 1] = change(target[:, 1])
    checks = check_inputs(SOURCE, target, ("a", "b", "c"))
    (found,) = checks.findings
    assert (found.column, found.kind) == ("'b'", kind)
    assert found.share == pytest.approx(share)
    assert checks.affected_share == found.share
    assert "1 of 3 columns" in checks.verdict()


def test_a_constant_that_changes_is_odd_and_one_that_stays_is_not() -> None:
    source, target = (np.column_stack([rows, np.ones(len(rows))]) for rows in (SOURCE, SOURCE[:100]))
    assert not check_inputs(source, target).findings
    target[:, 3] = 1e6
    assert (
        check_inputs(source, target).findings[0].words == "column 3: always 1 on the source, 1e+06 in the middle here"
    )


def test_columns_that_changed_places_are_named() -> None:
    scales = np.array([1.0, 5.0, 3.0])
    source = GENERATOR.normal(size=(500, 3)) + 10 * scales
    target = GENERATOR.normal(size=(400, 3)) + 10 * scales
    assert not check_inputs(source, target + 0.5, ("a", "b", "c")).findings
    # A column that never varies hides nothing of the others.
    source, target = (np.column_stack([rows, np.ones(len(rows))]) for rows in (source, target))
    checks = check_inputs(source, target[:, [2, 1, 0, 3]], ("a", "b", "c", "d"))
    words = [found.words for found in checks.findings]
    assert "'a': looks as 'c' did on the source" in words
    assert "'c': looks as 'a' did on the source" in words


def test_ordinary_shifts_are_not_odd() -> None:
    target = 1.5 * GENERATOR.normal(size=(400, 3)) + 1
    assert check_inputs(SOURCE, target) == InputChecks(3, ())
    assert check_inputs(SOURCE, SOURCE[:1]).verdict() == ""


def test_findings_survive_as_plain_values_and_widen_the_interval() -> None:
    checks = check_inputs(SOURCE, 1000 * SOURCE)
    found = Diagnosis(accuracy=0.9, mean_confidence=0.9, reach=(0.02, 0.02), inputs=checks, looked_at="the inputs")
    assert found.interval is not None
    assert found.interval[0] == 0
    assert found.kind_of_shift() == "outside"
    assert TargetFindings.from_plain(TargetFindings(found).as_plain()).diagnosis == found
    assert set(TargetFindings(found).numbers()) >= {"estimated_accuracy"}


def test_columns_of_an_embedding_are_odd_only_beyond_what_all_have() -> None:
    source, target = GENERATOR.normal(size=(500, 40)), GENERATOR.normal(size=(300, 40))
    source[:, 3] *= 0.01
    source[:, 4] = 0.0
    assert not check_inputs(source, target).findings
    target[:, 4] += 1000
    target[:, 7] *= 1000
    assert {found.column for found in check_inputs(source, target).findings} == {"column 4", "column 7"}


def test_columns_that_are_mostly_zero_do_not_alarm_by_chance() -> None:
    source, target = (GENERATOR.uniform(size=(400, 30)) * (GENERATOR.uniform(size=(400, 30)) < 0.3) for _ in range(2))
    target[:, 0] = 0.0
    assert not check_inputs(source, target).findings
