"""Figure 5: accuracy, Brier score and the gap to a covariate shift, epoch by epoch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from shiftcal.runs.comparison import ComparisonPlan, parse_contenders
from shiftcal.runs.comparison.plan import Folders
from shiftcal.runs.reporting.figures.drawing import new_figure, plain, run_styles, shown
from shiftcal.runs.reproduction.base import Reproduction, Row, Scale, mean_of, values_of, visda_plan
from shiftcal.runs.tasks import SUITES, parse_tasks

_CPU_TASKS = ",".join(
    ("mnist->usps@usps:test", "usps->mnist@mnist:test", "office-home-features/Art->office-home-features/Product")
)


@dataclass(frozen=True)
class TrainingCurves(Reproduction):
    """Accuracy and Brier score by epoch of DRST, its ablations, CBST and CRST."""

    name: ClassVar[str] = "training-curves"
    item: ClassVar[str] = "Figure 5 a, b"
    question: ClassVar[str] = "Does DRST stay ahead, and calibrated, while it trains on its own labels?"
    published: ClassVar[str] = (
        "On VisDA, DRST has a higher accuracy and a lower Brier score than CBST and CRST in every epoch; r = 0 and "
        "R = 1 stand between."
    )
    learning_curves: ClassVar[bool] = True
    methods: ClassVar[str] = (
        "drst,drst[preset=paper],drst[preset=paper;class_regularization=0],drst[preset=paper;ratio_strength=0],"
        "drst[preset=authors],cbst,crst"
    )
    metrics: ClassVar[tuple[str, ...]] = ("accuracy", "brier_score")

    def plan(self, scale: Scale) -> ComparisonPlan:
        """Digits and Office-Home in place of VisDA, five seeds."""
        contenders = parse_contenders(self.methods)
        if scale == "paper":
            return visda_plan(contenders, num_seeds=5)
        settings = ("epochs=10", "epoch_steps=100")
        return ComparisonPlan(tuple(parse_tasks(_CPU_TASKS)), contenders, num_seeds=5, settings=settings)

    def differs(self, scale: Scale) -> str:
        """Data, network and budget."""
        if scale == "paper":
            return "All methods start from ImageNet weights, not from a source-only run."
        return (
            "Digits with a small network and Office-Home features in place of VisDA with a ResNet-101; 10 epochs of "
            "100 steps. The first `drst` is our default, the second the form as published, the third the same with "
            "r = 0, the fourth with R = 1, the fifth by the settings of the authors' code."
        )

    def rows(self, cells: Folders) -> list[Row]:
        """One for each task, method, seed and epoch."""
        return [
            {"task": task, "method": method, "seed": seed, **{name: row[name] for name in ("epoch", *self.metrics)}}
            for (task, method, seed), folder in cells.items()
            for row in folder.read_learning_curve()
            if all(name in row for name in self.metrics)
        ]

    def draw(self, rows: Sequence[Row]) -> Figure:
        """A row of pictures for each metric, a column for each task."""
        tasks = [str(task) for task in values_of(rows, "task")]
        figure = new_figure(3.2 * len(tasks), 2.6 * len(self.metrics) + 0.2 * len(values_of(rows, "method")))
        grid = figure.subplots(len(self.metrics), len(tasks), squeeze=False)
        for line, metric in zip(grid, self.metrics, strict=True):
            for axes, task in zip(line, tasks, strict=True):
                self._draw_one(axes, rows, task, metric)
        handles, labels = grid[0][0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper left", ncols=1)
        return figure

    def finding(self, rows: Sequence[Row]) -> str:
        """The last epoch, over all tasks and seeds."""
        last = max(int(row["epoch"]) for row in rows)
        lines = "; ".join(
            f"{method} "
            + " / ".join(f"{mean_of(rows, metric, method=str(method), epoch=last):.3f}" for metric in self.metrics)
            for method in values_of(rows, "method")
        )
        names = " / ".join(metric.replace("_", " ") for metric in self.metrics)
        return f"After the last epoch ({names}, means over {len(values_of(rows, 'task'))} tasks): {lines}."

    def _draw_one(self, axes: Axes, rows: Sequence[Row], task: str, metric: str) -> None:
        plain(axes)
        methods = [str(method) for method in values_of(rows, "method")]
        for method, (colour, line) in zip(methods, run_styles(len(methods)), strict=True):
            epochs = [int(epoch) for epoch in values_of(rows, "epoch")]
            means = [mean_of(rows, metric, task=task, method=method, epoch=epoch) for epoch in epochs]
            axes.plot(epochs, means, color=colour, linestyle=line, label=shown(method, 60))
        axes.set_title(shown(task.split("@")[0], 40), fontsize=8)
        axes.set_xlabel("epoch")
        axes.set_ylabel(metric.replace("_", " "))


@dataclass(frozen=True)
class ShiftGap(TrainingCurves):
    """How far what remains is from a covariate shift, with and without self-training."""

    name: ClassVar[str] = "shift-gap"
    item: ClassVar[str] = "Figure 5 c"
    question: ClassVar[str] = "Does self-training bring the two domains closer to a covariate shift?"
    published: ClassVar[str] = "The proxy P_s(x)/P_t(x) - P_s(x, y)/P_t(x, y) falls with self-training alone."
    methods: ClassVar[str] = "source-only,drl,drst,cbst"
    metrics: ClassVar[tuple[str, ...]] = ("shift_gap",)

    def plan(self, scale: Scale) -> ComparisonPlan:
        """Digits alone, three seeds."""
        plan = super().plan(scale)
        if scale == "paper":
            return plan
        return ComparisonPlan(SUITES["digits"][:3], plan.contenders, num_seeds=3, settings=plan.settings)

    def differs(self, scale: Scale) -> str:
        """Data, network and budget, and the form of the gap."""
        gap = "The gap is the mean absolute difference of the log ratios, on rows that training does not see."
        if scale == "paper":
            return f"{super().differs(scale)} {gap}"
        return (
            "Digits with a small network in place of VisDA with a ResNet-101: most classes of Office have too few "
            f"rows for a ratio of their own; 10 epochs of 100 steps. {gap}"
        )
