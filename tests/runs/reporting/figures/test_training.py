from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest

from shiftcal.data.pseudo_label_rounds import PseudoLabelRounds
from shiftcal.runs.predictions import Predictions
from shiftcal.runs.reporting import RunContents
from shiftcal.runs.reporting.figures.training import (
    draw_class_shares,
    draw_history,
    draw_pseudo_labels,
    history_info,
    learning_curve_info,
    mean_curves,
    pseudo_labels_info,
)


def run_of(
    binary: Callable[..., Predictions], history: Sequence[Mapping[str, float]], name: str = "drl"
) -> RunContents:
    return RunContents(name, {}, history, binary([0.5]), binary([0.5]))


def test_one_info_per_quantity_with_finite_values_only(binary: Callable[..., Predictions]) -> None:
    first = run_of(binary, [{"epoch": 3, "task_loss": 1.0}, {"epoch": 4, "task_loss": math.nan, "ratio_loss": 0.5}])
    second = run_of(binary, [{"task_loss": 2.0}, {"task_loss": 1.5}], "erm")
    task, ratio = history_info([first, second])
    assert (task.quantity, ratio.quantity) == ("task_loss", "ratio_loss")
    assert [line.epoch.tolist() for line in task.lines] == [[3], [1, 2]]
    assert [line.value.tolist() for line in task.lines] == [[1.0], [2.0, 1.5]]
    assert [line.value.tolist() for line in ratio.lines] == [[0.5], []]


def test_nothing_recorded(binary: Callable[..., Predictions]) -> None:
    assert history_info([run_of(binary, [])]) == ()
    assert history_info([run_of(binary, [{"epoch": 1, "loss": math.inf}])]) == ()


def test_long_histories_are_thinned(binary: Callable[..., Predictions]) -> None:
    (info,) = history_info([run_of(binary, [{"loss": float(step)} for step in range(2500)])])
    assert len(info.lines[0].value) <= 1000
    draw_history(info).draw_without_rendering()


def curve(*accuracies: float) -> list[dict[str, float]]:
    return [{"epoch": epoch, "accuracy": value} for epoch, value in enumerate(accuracies, start=1)]


def test_one_line_per_name_in_the_words_of_tables() -> None:
    rows = [{"epoch": 1, "accuracy": 0.5, "brier_score": 0.4, "negative_log_likelihood": 0.7}]
    accuracy, brier = learning_curve_info({"drl": rows, "no curve": [], "erm": curve(0.25, 0.75)})
    assert (accuracy.quantity, brier.quantity) == ("Accuracy % ↑", "Brier ↓")
    assert [line.value.tolist() for line in accuracy.lines] == [[50], [], [25, 75]]
    assert [line.value.tolist() for line in brier.lines] == [[0.4], [], []]
    figure = draw_history(accuracy)
    figure.draw_without_rendering()
    assert [line.get_label() for line in figure.axes[0].lines] == ["drl", "erm"]


def test_means_are_over_tasks_and_seeds() -> None:
    curves = {("a", "drl", 0): curve(0.1, 0.2), ("b", "drl", 0): curve(0.3, 0.6), ("a", "erm", 0): curve(0.5)}
    curves |= {("b", "erm", 0): curve(0.5), ("a", "drl", 1): curve(0.4, 0.4), ("b", "drl", 1): curve(0.4, 0.4)}
    means = mean_curves(curves)
    assert list(means) == ["drl", "erm"]
    assert means["drl"] == [pytest.approx(row) for row in curve(0.3, 0.4)]
    assert means["erm"] == curve(0.5)


def test_seeds_without_all_tasks_and_epochs_of_some_curves_do_not_count() -> None:
    curves = {("a", "drl", 0): curve(0.1, 0.2, 0.9), ("b", "drl", 0): curve(0.3, 0.6), ("a", "drl", 1): curve(1, 1)}
    means = mean_curves({**curves, ("a", "erm", 0): curve(0.5)})
    assert means["drl"] == [pytest.approx(row) for row in curve(0.2, 0.4)]
    assert means["erm"] == []


def test_columns_that_some_tasks_lack_are_left_out() -> None:
    with_source = [{"epoch": 1, "accuracy": 0.5, "source_accuracy": 0.9}]
    assert mean_curves({("a", "drl", 0): with_source, ("b", "drl", 0): curve(0.7)})["drl"] == [
        pytest.approx(row) for row in curve(0.6)
    ]


@pytest.fixture
def rounds() -> PseudoLabelRounds:
    labels = np.array([[0, 0, -1, -1, -1], [0, 1, 1, 2, -1]], dtype=np.int16)
    return PseudoLabelRounds(np.array([3, 4]), labels, np.array([0.9, 0.8]), np.array([1.0, 0.75]))


def test_info_of_a_known_problem(make_run: Callable[..., RunContents], rounds: PseudoLabelRounds) -> None:
    info = pseudo_labels_info(replace(make_run(), pseudo_labels=rounds))
    assert info is not None
    assert info.epoch.tolist() == [3, 4]
    np.testing.assert_allclose(info.selected, [0.4, 0.8])
    np.testing.assert_allclose(info.agreement, [np.nan, 0.5])
    np.testing.assert_allclose(info.class_share, [0.25, 0.5, 0.25, 0, 0])
    assert info.classes[-1] == "class 4"


def test_there_is_none_without_pseudo_labels(make_run: Callable[..., RunContents]) -> None:
    assert pseudo_labels_info(make_run()) is None
    assert pseudo_labels_info(replace(make_run(), pseudo_labels=PseudoLabelRounds.none_yet(5, 5))) is None


@pytest.mark.parametrize("num_classes", [5, 100])
def test_figures_are_drawn_with_and_without_labels(
    make_run: Callable[..., RunContents], rounds: PseudoLabelRounds, num_classes: int
) -> None:
    for known in (rounds, replace(rounds, true_precision=None)):
        info = pseudo_labels_info(replace(make_run(num_classes=num_classes), pseudo_labels=known))
        assert info is not None
        by_round = draw_pseudo_labels(info)
        by_round.draw_without_rendering()
        assert len(by_round.axes[0].lines) == (3 if known.true_precision is None else 4)
        draw_class_shares(info).draw_without_rendering()
