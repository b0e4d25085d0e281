import math
import statistics

import pytest

from shiftcal.core.errors import InvalidInputError
from shiftcal.runs.reporting import Cell, as_html, as_markdown, as_text, comparison_table
from shiftcal.runs.reporting.tables import ALL_TASKS


def cell(task: str, method: str, seed: int, accuracy: float, error: float = 0.1) -> Cell:
    metrics = {
        "accuracy": accuracy,
        "expected_calibration_error": error,
        "brier_score": 0.4,
        "negative_log_likelihood": 0.9,
    }
    return Cell(task, method, seed, metrics)


TWO_TASKS = [
    cell("a", "plain", 0, 0.60, 0.20),
    cell("a", "plain", 1, 0.70, 0.10),
    cell("b", "plain", 0, 0.50),
    cell("b", "plain", 1, 0.40),
    cell("a", "drl", 0, 0.80, 0.30),
    cell("a", "drl", 1, 0.90, 0.30),
    cell("b", "drl", 0, 0.20),
]


def test_mean_and_spread_over_seeds() -> None:
    table = comparison_table(TWO_TASKS)
    assert table.methods == ("plain", "drl")
    assert [block.task for block in table.blocks] == [ALL_TASKS, "a", "b"]
    entry = table.blocks[1].rows[0][0]
    assert entry is not None
    assert entry.mean == pytest.approx(0.65)
    assert entry.spread == pytest.approx(statistics.stdev([0.6, 0.7]))
    assert entry.num_seeds == 2


def test_over_all_tasks_only_complete_seeds_count() -> None:
    plain, drl = comparison_table(TWO_TASKS).blocks[0].rows
    assert plain[0] is not None
    assert drl[0] is not None
    assert plain[0].mean == pytest.approx(0.55)
    assert plain[0].spread == pytest.approx(0.0)
    assert drl[0].mean == pytest.approx(0.5)
    assert drl[0].spread is None


def test_best_follows_the_direction_of_the_metric() -> None:
    plain, drl = comparison_table(TWO_TASKS).blocks[1].rows
    assert [entry and entry.best for entry in plain] == [False, True, True, True]
    assert [entry and entry.best for entry in drl] == [True, False, True, True]


def test_one_task_needs_no_mean_over_tasks_and_one_method_is_not_best() -> None:
    table = comparison_table([cell("a", "plain", 0, 0.6)])
    assert [block.task for block in table.blocks] == ["a"]
    assert "*" not in as_text(table)


def test_missing_values_are_dashes() -> None:
    table = comparison_table([cell("a", "plain", 0, 0.6), cell("b", "drl", 0, 0.7), Cell("a", "drl", 0, {})])
    assert as_text(table).splitlines()[3].split() == ["drl", "–", "–", "–", "–"]
    nothing = comparison_table([cell("a", "plain", 0, math.nan)])
    assert nothing.blocks[0].rows[0][0] is None


def test_repeated_cells_are_refused() -> None:
    with pytest.raises(InvalidInputError, match=r"\('a', 'plain', 0\) twice"):
        comparison_table([cell("a", "plain", 0, 0.6), cell("a", "plain", 0, 0.7)])


def test_text_is_aligned() -> None:
    table = comparison_table([cell("a", "plain", 0, 0.6), cell("a", "a longer name", 0, 0.71, 0.2)])
    assert as_text(table).splitlines() == [
        "a              Accuracy % ↑   ECE ↓   Brier ↓   NLL ↓",
        "─" * 54,
        "plain                  60.0   0.100*    0.400*  0.900*",
        "a longer name          71.0*  0.200     0.400*  0.900*",
    ]


def test_markdown_marks_the_best_and_keeps_its_columns() -> None:
    table = comparison_table([cell("a", "x|y", 0, 0.6), cell("a", "drl", 0, 0.71)])
    lines = as_markdown(table).splitlines()
    assert lines[:2] == ["| a | Accuracy % ↑ | ECE ↓ | Brier ↓ | NLL ↓ |", "| --- | ---: | ---: | ---: | ---: |"]
    assert lines[2].startswith(r"| x\|y | 60.0 | **0.100** |")
    assert lines[3].startswith("| drl | **71.0** |")


def test_html_escapes_names_and_marks_headers() -> None:
    page = as_html(comparison_table([cell("<b>task", "<script>", 0, 0.6), cell("<b>task", "drl", 0, 0.7)]))
    assert "<b>" not in page
    assert "<script>" not in page
    assert "<strong>70.0</strong>" in page
    assert page.count('<th scope="row">') == 2
