from collections.abc import Callable

from shiftcal.runs.predictions import Predictions
from shiftcal.runs.reporting import RunContents
from shiftcal.runs.reporting.headline import headline, run_sentence
from shiftcal.runs.reporting.tables import Cell, comparison_table


def run_of(target: Predictions, name: str = "drl") -> RunContents:
    return RunContents(name, {}, [], target, target)


def plain(sentence: str) -> str:
    return sentence.replace("\N{NO-BREAK SPACE}", " ")


def test_says_against_is_right(binary: Callable[..., Predictions]) -> None:
    run = run_of(binary([0.9, 0.8, 0.9, 0.8], [0, 0, 0, 1]))
    assert plain(run_sentence(run)) == (
        "On the target the model is right 75.0 % of the time and says 85.0 %: it is over-confident by 10.0 points."
    )


def test_under_confidence_and_agreement(binary: Callable[..., Predictions]) -> None:
    assert "under-confident by 20.0 points" in run_sentence(run_of(binary([0.8, 0.8], [0, 0])))
    assert "its confidence is right" in run_sentence(run_of(binary([0.995, 0.995], [0, 0])))


def test_without_labels_the_ratio_is_summed_up(binary: Callable[..., Predictions]) -> None:
    sentence = plain(run_sentence(run_of(binary([0.9] * 4, ratio=[0.5, 0.5, 0.5, 2.0]))))
    assert "expects to be right 90.0 % of the time; no labels" in sentence
    assert "median density ratio of 0.50" in sentence
    assert "75.0 % look more like the target" in sentence


def test_without_labels_and_without_shift(binary: Callable[..., Predictions]) -> None:
    assert "No shift is modelled." in run_sentence(run_of(binary([0.9])))


def test_several_runs_name_the_best(binary: Callable[..., Predictions]) -> None:
    accurate = run_of(binary([0.6, 0.6], [0, 0]), "accurate")
    calibrated = run_of(binary([0.5, 0.5], [0, 1]), "calibrated")
    assert plain(headline([accurate, calibrated])) == (
        "Of 2 runs, accurate is right most often on the target (100.0 %), and calibrated has the lowest "
        "calibration error (0.000)."
    )
    both = run_of(binary([1.0, 1.0], [0, 0]), "both")
    assert "both is right most often" in headline([calibrated, both])


def test_a_comparison_is_summed_up_by_its_table_not_by_the_runs_in_detail(
    binary: Callable[..., Predictions],
) -> None:
    """One seed of one task was set against a table of all."""
    cells = [
        Cell(task, method, seed, {"accuracy": right, "expected_calibration_error": error})
        for method, right, error in (("a", 0.7, 0.1), ("b", 0.6, 0.05), ("c", 0.7, 0.2))
        for task in ("x", "y")
        for seed in (0, 1)
    ]
    lucky = run_of(binary([1.0, 1.0], [0, 0]), "b")
    sentence = headline([lucky, run_of(binary([1.0, 1.0], [1, 1]), "a")], comparison_table(cells))
    expected = "On the target, over all tasks and seeds, a and c are most often right, and b is best calibrated."
    assert sentence == expected
    one_task = comparison_table([cell for cell in cells if cell.task == "x"])
    assert "over all seeds, a and c" in headline([lucky], one_task)


def test_several_runs_without_labels(binary: Callable[..., Predictions]) -> None:
    runs = [run_of(binary([0.9]), "a"), run_of(binary([0.9]), "b")]
    assert headline(runs) == "2 runs, without target labels that would tell which one is right."
