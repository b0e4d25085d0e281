"""Confusion matrix: which classes are taken for which."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from shiftcal.runs.predictions import Predictions
from shiftcal.runs.reporting.figures.drawing import new_figure, shown

# More would be too small to read.
_MOST_CLASSES = 40
_MOST_NUMBERED = 12


class ConfusionInfo(NamedTuple):
    """Of labelled predictions."""

    classes: tuple[str, ...]
    shares: NDArray[np.float64]
    """(C, C) of the rows of each true class, the share that is predicted as each."""


def confusion_info(predictions: Predictions) -> ConfusionInfo | None:
    """None without labels, or with more classes than can be shown."""
    num_classes = len(predictions.classes)
    if predictions.labels is None or num_classes > _MOST_CLASSES:
        return None
    counts = np.zeros((num_classes, num_classes))
    np.add.at(counts, (predictions.labels, predictions.predicted), 1)
    rows = counts.sum(axis=1, keepdims=True)
    return ConfusionInfo(tuple(map(str, predictions.classes)), counts / np.maximum(rows, 1))


def draw_confusion(info: ConfusionInfo) -> Figure:
    """True classes from top to bottom, predicted ones from left to right."""
    size = min(3.0 + 0.16 * len(info.classes), 8.0)
    figure = new_figure(size, size)
    axes = figure.subplots()
    axes.imshow(info.shares, cmap="Blues", vmin=0, vmax=1)
    names = [shown(name, 14) for name in info.classes]
    axes.set_xticks(range(len(names)), names, rotation=90)
    axes.set_yticks(range(len(names)), names)
    axes.set_xlabel("predicted")
    axes.set_ylabel("true")
    if len(names) <= _MOST_NUMBERED:
        for (row, column), share in np.ndenumerate(info.shares):
            if share >= 0.005:
                colour = "white" if share > 0.5 else "#333333"
                axes.text(column, row, f"{100 * share:.0f}", ha="center", va="center", color=colour, fontsize=8)
    return figure
