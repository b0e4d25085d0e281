import pytest

from shiftcal.runs.reporting.figures.history import draw_history
from shiftcal.runs.reporting.figures.learning_curve import learning_curve_info, mean_curves


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
