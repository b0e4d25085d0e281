import math
from collections.abc import Callable, Mapping, Sequence

from shiftcal.runs.predictions import Predictions
from shiftcal.runs.reporting import RunContents
from shiftcal.runs.reporting.figures.history import draw_history, history_info


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
