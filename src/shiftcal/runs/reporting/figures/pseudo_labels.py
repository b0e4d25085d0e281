"""Pseudo-labels: how much of the target was taken as labelled, how much of that is right, and of what class."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from shiftcal.runs.reporting.contents import RunContents
from shiftcal.runs.reporting.figures.drawing import (
    DOMAIN_COLOURS,
    FAINT,
    INK,
    RUN_COLOURS,
    list_below_each_other,
    new_axes,
    new_figure,
    percentages,
    shown,
)

# More names than this would not be legible below each other.
_MOST_NAMED_CLASSES = 20


class PseudoLabelsInfo(NamedTuple):
    """Shares by round, and by class in the last round."""

    epoch: NDArray[np.int64]
    selected: NDArray[np.float64]
    """Of the target rows."""
    agreement: NDArray[np.float64]
    """With the round before; NaN where there is nothing to compare."""
    estimated_precision: NDArray[np.float64]
    true_precision: NDArray[np.float64] | None
    classes: tuple[str, ...]
    class_share: NDArray[np.float64]
    """Of the labels of the last round."""


def pseudo_labels_info(run: RunContents) -> PseudoLabelsInfo | None:
    """What is known of the run's pseudo-labels; None if it had none."""
    rounds = run.pseudo_labels
    if rounds is None or len(rounds) == 0:
        return None
    classes = tuple(map(str, run.target.classes))
    return PseudoLabelsInfo(
        rounds.epochs,
        rounds.share,
        rounds.agreement,
        rounds.estimated_precision,
        rounds.true_precision,
        classes,
        rounds.class_shares(len(classes)),
    )


def draw_pseudo_labels(info: PseudoLabelsInfo) -> Figure:
    """Shares by round, against the epoch that each round belongs to."""
    lines = [
        (info.selected, FAINT, "-", "target rows selected"),
        (info.agreement, RUN_COLOURS[4], ":", "labels as in the round before"),
        (info.estimated_precision, INK, "--", "labels right, as the model believes"),
    ]
    if info.true_precision is not None:
        lines.append((info.true_precision, DOMAIN_COLOURS["target"], "-", "labels right"))
    figure = new_figure(height=2.7)
    axes = new_axes(figure, "epoch", "share")
    marker = "o" if len(info.epoch) <= 30 else ""
    for share, colour, style, label in lines:
        axes.plot(
            info.epoch, share, color=colour, linestyle=style, linewidth=1.4, marker=marker, markersize=3, label=label
        )
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    percentages(axes.yaxis)
    axes.set_ylim(0, 1.03)
    list_below_each_other(figure, len(lines))
    return figure


def draw_class_shares(info: PseudoLabelsInfo) -> Figure:
    """Share of each class in the last round; a dashed line is where all classes would be alike."""
    num_classes = len(info.classes)
    named = num_classes <= _MOST_NAMED_CLASSES
    figure = new_figure(height=max(2.7, 0.8 + 0.2 * num_classes) if named else 3.2)
    axes = new_axes(figure, "share of the selected rows", "" if named else "class number")
    positions = np.arange(num_classes)
    axes.barh(positions, info.class_share, height=0.75 if named else 1.0, color=DOMAIN_COLOURS["target"])
    axes.axvline(1 / num_classes, color=INK, linestyle="--", linewidth=1)
    if named:
        axes.set_yticks(positions, [shown(name, max_length=20) for name in info.classes])
    axes.set_ylim(num_classes - 0.5, -0.5)
    percentages(axes.xaxis)
    return figure
