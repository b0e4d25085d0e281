from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

from shiftcal import Monitor, ShiftCalibrator
from shiftcal.core.errors import InvalidInputError
from shiftcal.faces.monitoring.table_roles import TableModel, table_roles
from shiftcal.target.batch_status import BatchStatus
from shiftcal.target.diagnosis import Diagnosis

pytestmark = pytest.mark.usefixtures("coarse_estimate")


def rows(num_rows: int, seed: int, moved: float = 0.0) -> pd.DataFrame:
    """A table with a model's probability: the nearer to the boundary, the less sure and the less often right."""
    rng = np.random.default_rng(seed)
    size = rng.normal(2 * rng.choice([-1, 1], num_rows), 1) * (1 - moved)
    probability = 1 / (1 + np.exp(-2 * size))
    return pd.DataFrame(
        {
            "size": size,
            "colour": np.array(["red", "blue", None])[rng.integers(3, size=num_rows)],
            "is_new": rng.random(num_rows) < 0.5,
            "score": probability,
            "paid": np.where(rng.random(num_rows) < probability, "yes", "no"),
        }
    )


@pytest.fixture(scope="module")
def reference() -> pd.DataFrame:
    return rows(400, seed=0)


def read_model(reference: pd.DataFrame) -> TableModel:
    return table_roles(reference, label="paid").model


def made(reference: pd.DataFrame, **options: Any) -> Monitor:
    return Monitor(
        read_model(reference), reference, reference["paid"], columns=["size", "colour", "is_new"], **options
    )


@pytest.fixture(scope="module")
def watched(reference: pd.DataFrame) -> Monitor:
    """One batch as the reference, one with inputs that are nearer to the boundary."""
    monitor = made(reference)
    monitor.update(rows(200, seed=1), time="Monday", y=rows(200, seed=1)["paid"])
    monitor.update(rows(200, seed=2, moved=0.6))
    return monitor


def test_a_batch_like_the_reference_raises_no_alarm(watched: Monitor) -> None:
    status = watched.history[0]
    assert (status.time, status.num_rows, status.alarm, status.reason) == ("Monday", 200, False, "")
    assert status.low < status.accuracy < status.high
    assert status.true_accuracy is not None
    assert status.low < status.true_accuracy < status.high
    assert [column.name for column in status.drift] == ["size", "colour", "is_new", "predicted class", "confidence"]
    assert sum(status.class_frequencies) == pytest.approx(1)
    assert "Monday: 200 rows, accuracy" in str(status)


def test_a_shifted_batch_raises_an_alarm_with_its_reasons(watched: Monitor) -> None:
    status = watched.history[1]
    assert status.time == "2"
    assert status.true_accuracy is None
    assert status.accuracy < watched.history[0].accuracy
    assert {alarm.signal for alarm in status.alarms} == {"accuracy", "drift"}
    assert "size (distance" in status.reason
    assert "ALARM" in str(status)


def test_a_status_comes_back_from_plain_values(watched: Monitor) -> None:
    for status in watched.history:
        assert BatchStatus.from_plain(status.as_plain()) == status


def test_labels_of_a_batch_change_nothing_but_the_true_accuracy(reference: pd.DataFrame, watched: Monitor) -> None:
    again = made(reference).update(rows(200, seed=1), time="Monday")
    assert replace(again, true_accuracy=watched.history[0].true_accuracy) == watched.history[0]


def test_a_small_drop_that_persists_is_found_over_the_window(
    reference: pd.DataFrame, monkeypatch: pytest.MonkeyPatch, watched: Monitor
) -> None:
    well = watched.history[0]
    monitor = made(reference, watch=("accuracy",))
    lower, found = monitor._confidence.mean - 0.03, Diagnosis(0.9, 0.9, reach=(0.1, 0.07))
    past = [replace(well, confidence=lower, confidence_p_value=0.1, num_rows=400)] * 20
    assert monitor._accuracy_signs(found, reference["score"].to_numpy()).window_batches == 1
    monitor.history = past
    confidence = monitor._confidence.calibrated(np.maximum(reference["score"], 1 - reference["score"]).to_numpy())
    signs = monitor._accuracy_signs(found, confidence)
    assert signs.window_batches == 21
    assert signs.confidence_p_value > 0.4
    assert signs.window_p_value < signs.confidence_p_value
    # Batches that raised an alarm by themselves were told of then.
    monitor.history = [replace(status, confidence_p_value=1e-9) for status in past]
    assert monitor._accuracy_signs(found, confidence).window_batches == 1


def test_a_calibrator_stands_for_its_model(reference: pd.DataFrame) -> None:
    inputs, labels = reference[["size"]].to_numpy(), reference["paid"]
    model = LogisticRegression().fit(inputs, labels)
    calibrator = ShiftCalibrator(model, features="none")
    monitor = Monitor(calibrator, inputs, labels)
    assert monitor.classes_.tolist() == ["no", "yes"]
    assert monitor.reference_accuracy_ == pytest.approx(model.score(inputs, labels))
    with pytest.raises(
        InvalidInputError, match=r"batch: expected the 1 columns of the reference, got shape \(4, 2\)"
    ):
        monitor._columns_of(np.ones((4, 2)), None)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"size": None}, "expected columns 'size', and there are"),
        ({"size": "tall"}, "column 'size': expected numbers as in the reference"),
        ({"score": 1.5}, "expected rows of probabilities"),
    ],
)
def test_batches_that_do_not_fit_are_refused(
    reference: pd.DataFrame, watched: Monitor, change: dict[str, Any], message: str
) -> None:
    batch = reference.head(20).assign(**change)
    batch = batch.drop(columns=[name for name, value in change.items() if value is None])
    with pytest.raises(InvalidInputError, match=message):
        watched.update(batch)


def test_bad_references_and_options_are_refused(reference: pd.DataFrame) -> None:
    with pytest.raises(InvalidInputError, match="window: expected a number of batches of at least 1, got 0"):
        made(reference, window=0)
    with pytest.raises(InvalidInputError, match="y_reference: expected a label for each of 400 rows, got 3"):
        Monitor(read_model(reference), reference, ["no", "yes", "no"])
    with pytest.raises(InvalidInputError, match=r"expected a matrix of numbers: .*; give a frame"):
        Monitor(lambda X: np.full((len(X), 2), 0.5), np.array([["a", 1]] * 20, dtype=object), [0, 1] * 10)
    with pytest.raises(InvalidInputError, match="does not know the label 'maybe'"):
        Monitor(read_model(reference), reference, ["maybe"] * 400)
    with pytest.raises(InvalidInputError, match="batch: expected at least 10 rows, got 9; join it with the next"):
        made(reference).update(reference.head(9))
    with pytest.raises(InvalidInputError, match="reference: expected at least 10 rows, got 9"):
        made(reference.head(9))
