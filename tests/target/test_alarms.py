import re
from dataclasses import replace
from typing import Any

import pytest

from shiftcal.core.errors import InvalidInputError
from shiftcal.target.alarms import AccuracySigns, AlarmRule
from shiftcal.target.drift import ColumnDrift

WELL = AccuracySigns(0.9, 0.88, 0.92, 0.02, 0.9, 0.9, 0.5, 0.5, 3)


def test_the_error_rate_is_shared_by_what_is_watched() -> None:
    rule = AlarmRule(false_alarms_per_year=2, batches_per_year=100)
    assert rule.error_rate == pytest.approx(0.02)
    assert rule.level == pytest.approx(0.01)
    assert AlarmRule(false_alarms_per_year=2, batches_per_year=100, watch=("drift",)).level == pytest.approx(0.02)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"accuracy": 0.87, "high": 0.88}, "is below the 90.0% of the reference"),
        ({"confidence_p_value": 1e-4}, r"Calibrated confidence 90.0% is lower .* \(p = 0.0001\)"),
        ({"window_p_value": 1e-4}, "over the last 3 batches together"),
    ],
)
def test_each_sign_of_a_lower_accuracy_raises_an_alarm(change: dict[str, Any], words: str) -> None:
    rule = AlarmRule()
    assert rule.accuracy_alarms(WELL) == ()
    (alarm,) = rule.accuracy_alarms(replace(WELL, **change))
    assert alarm.signal == "accuracy"
    assert re.search(words, alarm.words)
    assert AlarmRule(watch=("drift",)).accuracy_alarms(replace(WELL, **change)) == ()


def test_an_estimate_must_fall_by_more_than_its_interval_reaches_to_either_side() -> None:
    """Above it may reach less far than below."""
    fallen = replace(WELL, accuracy=0.87, low=0.83, high=0.89, reach=0.04)
    assert AlarmRule().accuracy_alarms(fallen) == ()
    assert AlarmRule().accuracy_alarms(replace(fallen, accuracy=0.85)) != ()


def test_drifted_columns_are_named_the_strongest_first() -> None:
    columns = [ColumnDrift(f"c{k}", "number", 0.1 * k, 10.0**-k, 10.0**-k) for k in range(12)]
    (alarm,) = AlarmRule().drift_alarms(columns)
    assert alarm.words.startswith("9 of 12 columns drifted: c11 (distance 1.10, p = 1e-11), c10")
    assert alarm.words.endswith("and 4 more.")
    assert AlarmRule().drift_alarms(columns[:2]) == ()
    assert AlarmRule(watch=("accuracy",)).drift_alarms(columns) == ()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"false_alarms_per_year": 0}, "more than 0"),
        ({"false_alarms_per_year": 365}, r"less than there are batches in a year \(365\)"),
        ({"watch": ("acuracy",)}, "Did you mean 'accuracy'"),
        ({"watch": ()}, "at least one of accuracy, drift"),
    ],
)
def test_rules_that_make_no_sense_are_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        AlarmRule(**options)  # type: ignore[arg-type]
