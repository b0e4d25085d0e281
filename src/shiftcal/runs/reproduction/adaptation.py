"""Tables 3 and 4: accuracy after adaptation, and with few labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from matplotlib.figure import Figure

from shiftcal.runs.comparison import ComparisonPlan, parse_contenders
from shiftcal.runs.comparison.plan import Folders
from shiftcal.runs.predictions import load_predictions
from shiftcal.runs.reporting.figures.drawing import new_figure, plain, shown
from shiftcal.runs.reproduction.base import Reproduction, Row, Scale, mean_of, values_of, visda_plan
from shiftcal.runs.tasks import SUITES

_METRICS = {
    "accuracy": "accuracy",
    "expected_calibration_error": "ece",
    "brier_score": "brier",
}


@dataclass(frozen=True)
class Adaptation(Reproduction):
    """Accuracy of every method of the paper's table, and of two that it names as stronger.

    The two most accurate rivals are there with the calibrator of ours too, which does not change what is predicted.
    """

    name: ClassVar[str] = "adaptation"
    item: ClassVar[str] = "Table 3"
    question: ClassVar[str] = "Which method adapts best to a target without labels?"
    published: ClassVar[str] = (
        "Mean accuracy on VisDA-2017: source 52.4, MCD 71.9, ADR 74.8, CBST 76.4, CRST 78.1, MUDA 78.5, BRER 80.6, "
        "CBST-AVH 81.5, DRST 83.75; from ASG: CBST 82.2, CRST 84.2, DRST 85.25."
    )
    methods: ClassVar[str] = (
        "source-only,dann,cdan,adda,mcd,adr,vada,mcc,cbst,cbst-avh,crst,brer,muda,cpga,"
        "mcc+target-scaling,cpga+target-scaling,drst+target-scaling"
    )
    own: ClassVar[str] = "drst+target-scaling"

    def plan(self, scale: Scale) -> ComparisonPlan:
        """Office features and digits in place of VisDA."""
        contenders = parse_contenders(self.methods)
        if scale == "paper":
            return visda_plan(contenders)
        return ComparisonPlan(SUITES["adaptation"], contenders, settings=("epochs=10", "epoch_steps=100"))

    def differs(self, scale: Scale) -> str:
        """Data, network, budget, start."""
        if scale == "paper":
            return "Methods start from ImageNet weights, not from a source-only run; configs/visda-2017 has both."
        return (
            "Office features (EfficientNet-Lite2) with an MLP and digits with a small network in place of VisDA with "
            "a ResNet-101; 1,000 steps; no ASG, whose teacher needs an ImageNet network that is trained on."
        )

    def rows(self, cells: Folders) -> list[Row]:
        """One for each task, method and seed."""
        rows: list[Row] = []
        for (task, method, seed), folder in cells.items():
            metrics = folder.read_metrics()
            numbers = {short: float(metrics["target"][name] or 0) for name, short in _METRICS.items()}
            predictions = load_predictions(folder.target_predictions)
            assert predictions.labels is not None
            right = predictions.predicted == predictions.labels
            by_class = [right[predictions.labels == label].mean() for label in np.unique(predictions.labels)]
            source = float(metrics["source"].get("accuracy") or float("nan"))
            rows.append(
                {
                    "task": task,
                    "method": method,
                    "seed": seed,
                    **numbers,
                    "mean_class_accuracy": float(np.mean(by_class)),
                    "source_accuracy": source,
                }
            )
        return rows

    def draw(self, rows: Sequence[Row]) -> Figure:
        """Mean accuracy of each method, in order."""
        methods = _each_once(_by_accuracy(rows))
        figure = new_figure(5.6, 0.8 + 0.22 * len(methods))
        axes = figure.subplots()
        plain(axes)
        means = [mean_of(rows, "accuracy", method=method) for method in methods]
        colours = ["#0072B2" if _trained(method) == _trained(self.own) else "#8a8a8a" for method in methods]
        axes.barh(range(len(methods)), means, color=colours)
        axes.set_yticks(range(len(methods)), [shown(_trained(method), 40) for method in methods])
        axes.set_xlabel(f"accuracy on the target, mean over {len(values_of(rows, 'task'))} tasks")
        axes.set_xlim(max(0.0, min(means) - 0.1), 1.0)
        return figure

    def finding(self, rows: Sequence[Row]) -> str:
        """Methods by mean accuracy, with ECE and Brier score, and who is ahead."""
        methods = _by_accuracy(rows)[::-1]
        listed = "; ".join(
            f"{method} " + " / ".join(f"{mean_of(rows, name, method=method):.3f}" for name in _METRICS.values())
            for method in methods
        )
        ranked = [_trained(method) for method in _each_once(methods)]
        own = _trained(self.own)
        place = ranked.index(own) + 1 if own in ranked else None
        return (
            f"Accuracy / ECE / Brier, means over {len(values_of(rows, 'task'))} tasks: {listed}. "
            f"`{own}` is number {place} of {len(ranked)} in accuracy."
        )


@dataclass(frozen=True)
class FewLabels(Adaptation):
    """DRSSL and FixMatch with few labels of another domain."""

    name: ClassVar[str] = "ssl"
    item: ClassVar[str] = "Table 4"
    question: ClassVar[str] = "Does the robust form help with few labels and unlabelled data of another domain?"
    published: ClassVar[str] = (
        "Source / target test accuracy: CIFAR-10 to STL-10 FixMatch 91.60 / 59.61, DRSSL 95.17 / 69.38; MNIST to "
        "SVHN FixMatch 99.43 / 26.50, DRSSL 99.46 / 30.96."
    )
    methods: ClassVar[str] = (
        "source-only,fixmatch[unlabelled_multiple=3],adamatch[unlabelled_multiple=3],"
        "drssl[unlabelled_multiple=3]+target-scaling[keep_source=true]"
    )
    own: ClassVar[str] = "drssl[unlabelled_multiple=3]+target-scaling[keep_source=true]"

    def plan(self, scale: Scale) -> ComparisonPlan:
        """The paper's pairs, and each the other way round or with MNIST-M."""
        tasks = (*SUITES["semi-supervised-objects"], *SUITES["semi-supervised-digits"])
        contenders = parse_contenders(self.methods)
        length: tuple[str, ...] = ("epochs=10", "epoch_steps=100", "batch_size=32")
        if scale == "paper":
            length = ("epochs=1024", "epoch_steps=1024", "optimizer=sgd", "learning_rate=0.03")
        return ComparisonPlan(
            tasks,
            contenders,
            backbone="wrn-28-2" if scale == "paper" else "auto",
            image_size=32,
            settings=("label_budget=4000", *length),
        )

    def differs(self, scale: Scale) -> str:
        """Data, network and budget."""
        if scale == "paper":
            return "4,000 labels for digits too, where the paper has 40,000."
        return (
            "Parts of the data sets, a small network and 1,000 steps in place of a WideResNet-28-2 and 2^20; 4,000 "
            "labels for digits too, where the paper has 40,000."
        )


def _each_once(methods: Sequence[str]) -> list[str]:
    """Those without a calibrator, and with one if they are there with it alone."""
    return [method for method in methods if method == _trained(method) or _trained(method) not in methods]


def _trained(method: str) -> str:
    """The name without a calibrator."""
    return method.partition("+")[0]


def _by_accuracy(rows: Sequence[Row]) -> list[str]:
    """Methods, the best last."""
    return sorted(map(str, values_of(rows, "method")), key=lambda name: mean_of(rows, "accuracy", method=name))
