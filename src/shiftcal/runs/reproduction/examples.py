"""Figure 1 b: target pictures that are easy and hard by their density ratio."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from matplotlib.figure import Figure

from shiftcal.runs.comparison.plan import Folders
from shiftcal.runs.predictions import load_predictions
from shiftcal.runs.reporting.figures.drawing import new_axes, new_figure, shown
from shiftcal.runs.reproduction.attention import Attention
from shiftcal.runs.reproduction.base import Row, Scale, mean_of

_PER_END = 50
_NUM_SHOWN = 8
_ENDS = ("hard", "easy")


@dataclass(frozen=True)
class Examples(Attention):
    """The pictures at both ends of DRST's ratio; the same runs as those of the attention maps."""

    name: ClassVar[str] = "examples"
    item: ClassVar[str] = "Figure 1 b"
    question: ClassVar[str] = "Are pictures with a low density ratio the hard ones?"
    published: ClassVar[str] = (
        "Pictures with a high ratio show the object as the source does, those with a low one do not."
    )
    methods: ClassVar[str] = "drst"

    def differs(self, scale: Scale) -> str:
        """Data, network and budget."""
        if scale == "paper":
            return "Nothing but the choice of pictures: those at both ends, not those that look best."
        return (
            "Webcam to Amazon of Office-31 at 96 pixels, EfficientNet-Lite0 with its last blocks fine-tuned for 120 "
            "steps, in place of VisDA and a ResNet-101."
        )

    def rows(self, cells: Folders) -> list[Row]:
        """One for each of the pictures at both ends of the ratio."""
        rows: list[Row] = []
        for (task, method, seed), folder in cells.items():
            predictions = load_predictions(folder.target_predictions)
            assert predictions.labels is not None  # a comparison has labels
            order = np.argsort(predictions.density_ratio, kind="stable")
            per_end = min(_PER_END, len(order) // 2)
            for end, numbers in zip(_ENDS, (order[:per_end], order[::-1][:per_end]), strict=True):
                rows += [
                    {
                        "task": task,
                        "method": method,
                        "seed": seed,
                        "end": end,
                        "picture": int(number),
                        "ratio": float(predictions.density_ratio[number]),
                        "confidence": float(predictions.confidence[number]),
                        "predicted": str(predictions.classes[predictions.predicted[number]]),
                        "label": str(predictions.classes[predictions.labels[number]]),
                        "is_right": int(predictions.predicted[number] == predictions.labels[number]),
                    }
                    for number in numbers
                ]
        return rows

    def draw(self, rows: Sequence[Row]) -> Figure:
        """Ratio and confidence of the pictures, by whether the classifier is right."""
        figure = new_figure(4.6, 3.0)
        axes = new_axes(figure, "density ratio", "confidence")
        for is_right, colour, marker in ((1, "#0072B2", "o"), (0, "#D55E00", "x")):
            own = [row for row in rows if row["is_right"] == is_right]
            axes.scatter(
                [float(row["ratio"]) for row in own],
                [float(row["confidence"]) for row in own],
                color=colour,
                marker=marker,
                label="right" if is_right else "wrong",
            )
        axes.set_xscale("log")
        axes.legend()
        return figure

    def draw_pictures(self, rows: Sequence[Row], cells: Folders) -> Figure:
        """A line for each end, the outermost first, of the first task and seed."""
        folder = next(iter(cells.values()))
        examples = load_predictions(folder.target_predictions).examples
        assert examples is not None  # the target has pictures
        images = dict(zip(examples.rows.tolist(), examples.images, strict=True))
        figure = new_figure(1.1 * _NUM_SHOWN, 3.2)
        for end, line in zip(_ENDS, figure.subplots(len(_ENDS), _NUM_SHOWN), strict=True):
            own = [row for row in rows if row["end"] == end and row["picture"] in images][:_NUM_SHOWN]
            for axes in line:
                axes.axis("off")
            for axes, row in zip(line, own, strict=False):
                pixels = images[int(row["picture"])]
                axes.imshow(np.broadcast_to(pixels, (*pixels.shape[:2], 3)))
                axes.set_title(f"R {float(row['ratio']):.2f}\n{shown(str(row['label']), 14)}", fontsize=7)
        return figure

    def finding(self, rows: Sequence[Row]) -> str:
        """Ratio, accuracy and confidence at both ends."""
        return (
            "; ".join(
                f"at the {end} end the ratio is {mean_of(rows, 'ratio', end=end):.3f} in the mean, the accuracy "
                f"{mean_of(rows, 'is_right', end=end):.3f}, the confidence {mean_of(rows, 'confidence', end=end):.3f}"
                for end in _ENDS
            ).capitalize()
            + f" ({_PER_END} pictures each)."
        )
