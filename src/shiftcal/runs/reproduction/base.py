"""What a table or figure of the paper is made from, and what is said of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from matplotlib.figure import Figure

from shiftcal.runs.comparison import ComparisonPlan, Contender
from shiftcal.runs.comparison.plan import Folders
from shiftcal.runs.reporting.figures.drawing import new_axes, new_figure, run_styles, shown
from shiftcal.runs.tasks import parse_tasks

Scale = Literal["cpu", "paper"]
Row = Mapping[str, str | int | float]


@dataclass(frozen=True)
class Reproduction(ABC):
    """A comparison, and what is read from its cells.

    Rows are made from predictions on disk; they are the record, and figure and words are made from them alone.
    """

    name: ClassVar[str]
    item: ClassVar[str]
    """Where it stands in the paper."""
    question: ClassVar[str]
    published: ClassVar[str]
    """What the paper found."""
    learning_curves: ClassVar[bool] = False
    shows_pictures: ClassVar[bool] = False
    """Whether there is a second figure, with pictures of the data, which are not ours to pass on with the record."""

    @abstractmethod
    def plan(self, scale: Scale) -> ComparisonPlan:
        """What is trained on what: with data at hand and two cores, or as in the paper."""

    @abstractmethod
    def differs(self, scale: Scale) -> str:
        """What is not as in the paper."""

    @abstractmethod
    def rows(self, cells: Folders) -> list[Row]:
        """The record, from the finished cells."""

    @abstractmethod
    def draw(self, rows: Sequence[Row]) -> Figure:
        """The figure."""

    def draw_pictures(self, rows: Sequence[Row], cells: Folders) -> Figure:
        """A second figure, with pictures of the data, where there is one."""
        raise NotImplementedError

    @abstractmethod
    def finding(self, rows: Sequence[Row]) -> str:
        """What came out, in words and numbers of the rows."""


def visda_plan(contenders: tuple[Contender, ...], num_seeds: int = 3) -> ComparisonPlan:
    """The paper's main task at its size."""
    return ComparisonPlan(
        tuple(parse_tasks("visda-2017/train->visda-2017/validation")),
        contenders,
        num_seeds=num_seeds,
        backbone="resnet101:pretrained+512",
        image_size=224,
        settings=("optimizer=sgd", "learning_rate=1e-5", "epochs=20", "batch_size=16", "num_workers=8"),
    )


def draw_bins(means: Mapping[str, Sequence[float]], ticks: Sequence[str], x_label: str, y_label: str) -> Figure:
    """A line for each method through its means in each bin."""
    figure = new_figure(5.2, 2.4 + 0.2 * len(means))
    axes = new_axes(figure, x_label, y_label)
    for (method, values), (colour, line) in zip(means.items(), run_styles(len(means)), strict=True):
        axes.plot(range(len(values)), values, color=colour, linestyle=line, marker="o", label=shown(method, 48))
    axes.set_xticks(range(len(ticks)), ticks)
    axes.legend()
    return figure


def mean_of(rows: Sequence[Row], column: str, **wanted: str | float) -> float:
    """Mean of a column over the rows that have the wanted values; nan if there are none."""
    values = [float(row[column]) for row in rows if all(row[key] == value for key, value in wanted.items())]
    return sum(values) / len(values) if values else float("nan")


def values_of(rows: Sequence[Row], column: str) -> list[str | int | float]:
    """The different values of a column, in order of appearance."""
    return list(dict.fromkeys(row[column] for row in rows))
