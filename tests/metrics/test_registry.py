from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

import shiftcal.metrics
from shiftcal.metrics import METRICS, compute_metrics
from shiftcal.metrics.checks import check_predictions

Predictions = tuple[NDArray[np.float64], NDArray[np.int64]]


def test_all_at_once_equals_each_alone(predictions: Predictions) -> None:
    alone = {name: info.function(*predictions) for name, info in METRICS.items()}
    assert compute_metrics(*predictions) == pytest.approx(alone, abs=0, rel=0, nan_ok=True)


def test_values_are_python_floats(predictions: Predictions) -> None:
    assert {type(value) for value in compute_metrics(*predictions).values()} == {float}


@pytest.mark.parametrize("name", METRICS)
def test_entries_are_public_functions_with_a_line_of_text(name: str) -> None:
    info = METRICS[name]
    assert getattr(shiftcal.metrics, name) is info.function
    assert info.doc.endswith(".")
    assert "\n" not in info.doc


@pytest.mark.parametrize("name", METRICS)
def test_perfect_beats_wrong_in_the_stated_direction(name: str) -> None:
    labels = np.array([0, 1, 0, 1])
    good = np.array([[0.98, 0.02], [0.02, 0.98], [0.97, 0.03], [0.55, 0.45]])
    bad = np.array([[0.01, 0.99], [0.98, 0.02], [0.02, 0.98], [0.45, 0.55]])
    better, worse = METRICS[name].function(good, labels), METRICS[name].function(bad, labels)
    assert (better > worse) == METRICS[name].higher_is_better


def test_inputs_are_checked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def counting(probabilities: NDArray[np.float64], labels: NDArray[np.int64]) -> object:
        calls.append(len(labels))
        return check_predictions(probabilities, labels)

    for module in ("registry", "calibration", "correctness", "proper_scores", "selective"):
        monkeypatch.setattr(f"shiftcal.metrics.{module}.check_predictions", counting)
    compute_metrics(np.eye(2), np.array([0, 1]))
    assert calls == [2]
