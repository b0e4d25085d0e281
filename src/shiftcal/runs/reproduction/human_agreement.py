"""Table 2 and Figure 4: calibration and density ratio against how far people agree on a picture.

Votes are those of CIFAR-10H (Peterson et al., ICCV 2019) on CIFAR-10's test pictures; the share of votes for the true
class is what ImageNetV2 calls human selection frequency.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from shiftcal.analysis import calibration_by_score, rank_correlation
from shiftcal.core.errors import InvalidInputError
from shiftcal.data.catalog.human_votes import read_votes
from shiftcal.runs.comparison import ComparisonPlan, parse_contenders
from shiftcal.runs.comparison.plan import Folders
from shiftcal.runs.predictions import Predictions, load_predictions
from shiftcal.runs.reporting.figures.drawing import new_figure, plain, run_styles, shown
from shiftcal.runs.reproduction.base import Reproduction, Row, Scale, draw_bins, mean_of, values_of
from shiftcal.runs.tasks import parse_tasks

_EDGES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
_TASKS = ",".join(f"cifar-10->cifar-10/{domain}:test" for domain in ("ten", "low-contrast", "blurred", "noisy"))
_METHODS = ("source-only", "source-only+temperature", "drl", "calibrated")
# Of the second backbone; the first is the one that is chosen for pictures of this size.
_PRETRAINED = "efficientnet-lite0"
_OF_PRETRAINED = f"[backbone={_PRETRAINED}:pretrained;freeze_backbone=true;image_size=96]"


@dataclass(frozen=True)
class HumanAgreement(Reproduction):
    """ECE within bins of the share of people who choose the true class."""

    name: ClassVar[str] = "human-agreement-ece"
    item: ClassVar[str] = "Table 2"
    question: ClassVar[str] = "Is DRL calibrated on pictures that people disagree on, too?"
    published: ClassVar[str] = (
        "ECE on ImageNetV2 by human selection frequency, [0, .2] to [.8, 1]: source .2694 .1818 .1344 .0667 .0319; "
        "temperature scaling .2624 .1745 .1281 .0601 .0246; DRL .0129 .0036 .0012 .0019 .0019."
    )

    def plan(self, scale: Scale) -> ComparisonPlan:
        """CIFAR-10 and three changed versions of its test pictures."""
        if scale == "paper":
            return ComparisonPlan(
                tuple(parse_tasks("imagenet->imagenetv2/matched-frequency")),
                parse_contenders(",".join(_METHODS)),
                backbone="vgg19:pretrained",
                image_size=224,
                settings=("optimizer=sgd", "learning_rate=0.01", "schedule=step", "epochs=90", "num_workers=8"),
            )
        with_pretrained = (method.partition("+") for method in _METHODS)
        names = (*_METHODS, *(f"{method}{_OF_PRETRAINED}{plus}{rest}" for method, plus, rest in with_pretrained))
        return ComparisonPlan(
            tuple(parse_tasks(_TASKS)),
            parse_contenders(",".join(names)),
            settings=("epoch_steps=150", "epochs=10"),
        )

    def differs(self, scale: Scale) -> str:
        """Data and backbone."""
        if scale == "paper":
            return "Selection frequencies of ImageNetV2 are not in its archive and have to lie beside it."
        return (
            "4,000 pictures of CIFAR-10, with a small network and with a head on EfficientNet-Lite0 (ImageNet "
            "weights, frozen, 96 pixels), in place of ImageNet with AlexNet and VGG-19; the target is the test "
            "pictures of CIFAR-10, plain and with less contrast, blur and noise, with about 50 votes each "
            "(CIFAR-10H). Few pictures have a frequency below .4."
        )

    def rows(self, cells: Folders) -> list[Row]:
        """One for each task, method, seed and bin."""
        return [
            {
                "task": task,
                "method": method,
                "seed": seed,
                "low": group.low,
                "num_inputs": group.num_inputs,
                "accuracy": group.accuracy,
                "confidence": group.confidence,
                "ece": group.calibration_error,
            }
            for task, method, seed, predictions, frequency in _with_votes(cells)
            for group in calibration_by_score(predictions.probabilities, _labels(predictions), frequency, _EDGES)
        ]

    def draw(self, rows: Sequence[Row]) -> Figure:
        """ECE by bin."""
        means = {
            _spoken(method): [mean_of(rows, "ece", method=method, low=low) for low in _EDGES[:-1]]
            for method in values_of(rows, "method")
        }
        ticks = [f"{low:g} to {low + 0.2:g}" for low in _EDGES[:-1]]
        return draw_bins(means, ticks, "share of people who choose the true class", "ECE")

    def finding(self, rows: Sequence[Row]) -> str:
        """ECE by bin, of all tasks and seeds."""
        lines = "; ".join(
            f"{_spoken(method)} "
            + " ".join(_written(mean_of(rows, "ece", method=method, low=low)) for low in _EDGES[:-1])
            for method in values_of(rows, "method")
        )
        return f"ECE by bin, means over {len(values_of(rows, 'task'))} tasks: {lines}."


@dataclass(frozen=True)
class RatioAgainstHumans(HumanAgreement):
    """Rank correlation of the density ratio with human selection frequency."""

    name: ClassVar[str] = "ratio-vs-human"
    item: ClassVar[str] = "Figure 4"
    question: ClassVar[str] = "Does the density ratio know which pictures people find hard?"
    published: ClassVar[str] = "The ratio rises with human selection frequency."

    def rows(self, cells: Folders) -> list[Row]:
        """One for each task, method with a ratio, and seed."""
        rows: list[Row] = []
        for task, method, seed, predictions, frequency in _with_votes(cells):
            if np.ptp(predictions.density_ratio) == 0:
                continue  # it models no shift
            found = rank_correlation(predictions.density_ratio, frequency)
            right = predictions.predicted == _labels(predictions)
            with_confidence = rank_correlation(predictions.confidence, frequency, num_resamples=1).value
            rows.append(
                {
                    "task": task,
                    "method": method,
                    "seed": seed,
                    "correlation": found.value,
                    "low": found.low,
                    "high": found.high,
                    "of_confidence": with_confidence,
                    "with_being_right": rank_correlation(predictions.density_ratio, right, num_resamples=1).value,
                }
            )
        return rows

    def draw(self, rows: Sequence[Row]) -> Figure:
        """Correlations with their intervals, by task."""
        figure = new_figure(6.4, 3.2)
        axes = figure.subplots()
        plain(axes)
        tasks = [str(task) for task in values_of(rows, "task")]
        methods = [str(method) for method in values_of(rows, "method")]
        for place, (method, (colour, _)) in enumerate(zip(methods, run_styles(len(methods)), strict=True)):
            for number, task in enumerate(tasks):
                own = [row for row in rows if (row["task"], row["method"]) == (task, method)]
                positions = number + 0.2 * place + 0.04 * np.arange(len(own))
                values = np.array([[float(row[name]) for name in ("correlation", "low", "high")] for row in own])
                errors = np.abs(values[:, 1:] - values[:, :1]).T
                label = shown(_spoken(method), 48) if number == 0 else None
                axes.errorbar(positions, values[:, 0], errors, color=colour, fmt="o", markersize=3, label=label)
        axes.axhline(0, color="#8a8a8a", linewidth=0.8)
        axes.set_xticks(range(len(tasks)), [shown(task.split("/")[-1], 20) for task in tasks])
        axes.set_ylabel("rank correlation with human agreement")
        axes.legend()
        return figure

    def finding(self, rows: Sequence[Row]) -> str:
        """Mean correlations, and beside them that of the confidence."""
        lines = "; ".join(
            f"{_spoken(method)} {mean_of(rows, 'correlation', method=method):+.3f} "
            f"({sum(float(row['low']) > 0 for row in rows if row['method'] == method)} of "
            f"{sum(row['method'] == method for row in rows)} runs with an interval above 0; confidence "
            f"{mean_of(rows, 'of_confidence', method=method):+.3f})"
            for method in values_of(rows, "method")
        )
        return f"Rank correlation of the ratio with the share of people who choose the true class: {lines}."


def _with_votes(cells: Folders) -> Iterator[tuple[str, str, int, Predictions, NDArray[np.float64]]]:
    """Task, method, seed, predictions, and the share of votes for the true class of each of their rows."""
    votes = read_votes()
    shares = votes / votes.sum(axis=1, keepdims=True)
    for (task, method, seed), folder in cells.items():
        predictions = load_predictions(folder.target_predictions)
        labels = _labels(predictions)
        if len(labels) > len(shares):
            raise InvalidInputError(f"expected votes on {len(labels)} pictures, got {len(shares)}")
        yield task, method, seed, predictions, shares[np.arange(len(labels)), labels]


def _spoken(method: str | float) -> str:
    """With the second backbone as a word of its own."""
    plain_name = str(method).replace(_OF_PRETRAINED, "")
    return plain_name if plain_name == method else f"{plain_name} ({_PRETRAINED})"


def _labels(predictions: Predictions) -> NDArray[np.int64]:
    assert predictions.labels is not None  # a comparison has labels
    return predictions.labels


def _written(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.3f}"
