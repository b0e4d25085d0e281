"""Figure 2: Brier scores and reliability of source-only, temperature scaling, VADA and DRL."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from matplotlib.figure import Figure

from shiftcal.metrics import reliability_curve
from shiftcal.runs.comparison import ComparisonPlan, parse_contenders
from shiftcal.runs.comparison.plan import Folders
from shiftcal.runs.predictions import load_predictions
from shiftcal.runs.reporting.figures.drawing import FAINT, new_figure, plain, run_styles, shown
from shiftcal.runs.reproduction.base import Reproduction, Row, Scale, mean_of, values_of
from shiftcal.runs.tasks import SUITES, parse_tasks

_DEFAULT = "source-only+target-scaling"
_METHODS = f"source-only,source-only+temperature,vada,rba,drl[preset=paper],drl[preset=authors],drl,{_DEFAULT}"
_METRICS = {"accuracy": "accuracy", "brier_score": "brier", "expected_calibration_error": "ece"}


@dataclass(frozen=True)
class Calibration(Reproduction):
    """Brier scores of all tasks, and reliability diagrams of all their predictions."""

    name: ClassVar[str] = "calibration"
    item: ClassVar[str] = "Figure 2"
    question: ClassVar[str] = "Are the probabilities of DRL closer to the truth on a target than its rivals' are?"
    published: ClassVar[str] = (
        "On Office-31, Office-Home and VisDA, DRL has lower Brier scores than source-only, temperature scaling and "
        "VADA, and a reliability diagram closer to the diagonal."
    )

    def plan(self, scale: Scale) -> ComparisonPlan:
        """Office and, in place of VisDA, SVHN to MNIST."""
        contenders = parse_contenders(_METHODS)
        if scale == "paper":
            pairs = "office-31/amazon->office-31/webcam,visda-2017/train->visda-2017/validation"
            return ComparisonPlan(
                tuple(parse_tasks(pairs)),
                contenders,
                backbone="resnet50:pretrained",
                image_size=224,
                settings=("optimizer=sgd", "epochs=100", "num_workers=8"),
            )
        office = (*SUITES["office-31-features"], *SUITES["office-home-features"])
        tasks = (*office, *parse_tasks("svhn->mnist@mnist:test"))
        return ComparisonPlan(tasks, contenders, settings=("epoch_steps=100", "epochs=10"))

    def differs(self, scale: Scale) -> str:
        """Data and backbone."""
        if scale == "paper":
            return "Of Office one pair of domains; the others by `shiftcal compare`."
        return (
            "EfficientNet-Lite2 features with an MLP in place of a ResNet-50 that is trained whole; SVHN to MNIST "
            "with a small network in place of VisDA; 1,000 steps. `drl` is our form of it, beside that as published "
            f"and that by the settings of the authors' code. `{_DEFAULT}`, our default, is not in the paper."
        )

    def rows(self, cells: Folders) -> list[Row]:
        """One for each task, method and seed, with its reliability curve in ten bins."""
        rows: list[Row] = []
        for (task, method, seed), folder in cells.items():
            target = folder.read_metrics()["target"]
            predictions = load_predictions(folder.target_predictions)
            assert predictions.labels is not None
            curve = reliability_curve(predictions.probabilities, predictions.labels, num_bins=10)
            filled = curve.count > 0
            bins: dict[str, float] = {f"count_{number}": int(count) for number, count in enumerate(curve.count)}
            for name in ("confidence", "accuracy"):
                values = np.where(filled, getattr(curve, name), 0.0)
                bins |= {f"bin_{name}_{number}": float(value) for number, value in enumerate(values)}
            numbers = {short: float(target[name] or 0) for name, short in _METRICS.items()}
            rows.append({"task": task, "method": method, "seed": seed, **numbers, **bins})
        return rows

    def draw(self, rows: Sequence[Row]) -> Figure:
        """Brier scores as bars, then accuracy against confidence over all tasks."""
        figure = new_figure(7.2, 3.2)
        bars, diagram = figure.subplots(1, 2)
        methods = [str(method) for method in values_of(rows, "method")]
        styles = list(run_styles(len(methods)))
        plain(bars)
        bars.bar(
            range(len(methods)),
            [mean_of(rows, "brier", method=method) for method in methods],
            color=[colour for colour, _ in styles],
        )
        bars.set_xticks(range(len(methods)), [shown(method) for method in methods], rotation=25, ha="right")
        bars.set_ylabel("Brier score on the target")
        plain(diagram)
        diagram.plot([0, 1], [0, 1], color=FAINT, linewidth=0.8)
        for method, (colour, line) in zip(methods, styles, strict=True):
            diagram.plot(*_pooled_curve(rows, method), color=colour, linestyle=line, marker=".", label=shown(method))
        diagram.set_xlabel("confidence")
        diagram.set_ylabel("accuracy")
        diagram.legend()
        return figure

    def finding(self, rows: Sequence[Row]) -> str:
        """Means of all tasks, and on how many DRL is ahead of temperature scaling."""
        tasks = values_of(rows, "task")
        means = "; ".join(
            f"{method} " + " / ".join(f"{mean_of(rows, name, method=str(method)):.3f}" for name in _METRICS.values())
            for method in values_of(rows, "method")
        )
        ahead = {
            method: sum(
                mean_of(rows, "brier", task=str(task), method=method)
                < mean_of(rows, "brier", task=str(task), method="source-only+temperature")
                for task in tasks
            )
            for method in ("drl", _DEFAULT)
        }
        return (
            f"Accuracy / Brier / ECE, means over {len(tasks)} tasks: {means}. Brier below temperature scaling's on "
            f"{ahead['drl']} of {len(tasks)} tasks by `drl`, on {ahead[_DEFAULT]} by `calibrated`."
        )


@dataclass(frozen=True)
class CalibrationOfDigits(Calibration):
    """The same on digits that ship inside packages."""

    name: ClassVar[str] = "calibration-digits"

    def plan(self, scale: Scale) -> ComparisonPlan:
        """The tasks of the demo at either scale."""
        del scale
        return ComparisonPlan(SUITES["demo"], parse_contenders(_METHODS), settings=("epoch_steps=100", "epochs=10"))

    def differs(self, scale: Scale) -> str:
        """All of it."""
        del scale
        return "Embedded digits and a small network in place of Office and VisDA with a ResNet; 1,000 steps."


def _pooled_curve(rows: Sequence[Row], method: str) -> tuple[list[float], list[float]]:
    """Mean confidence and accuracy of each bin over all tasks and seeds, each row of predictions counting alike."""
    own = [row for row in rows if row["method"] == method]
    confidence: list[float] = []
    accuracy: list[float] = []
    for number in range(10):
        counts = np.array([float(row[f"count_{number}"]) for row in own])
        if counts.sum():
            for kept, name in ((confidence, "confidence"), (accuracy, "accuracy")):
                values = np.array([float(row[f"bin_{name}_{number}"]) for row in own])
                kept.append(float(counts @ values / counts.sum()))
    return confidence, accuracy
