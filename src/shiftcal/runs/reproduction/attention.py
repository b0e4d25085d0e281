"""Attention maps of the appendix: where DRST, CBST and CRST look."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray
from torch import Tensor, nn

from shiftcal.analysis import attention_coverage, grad_cam
from shiftcal.data.domains import LabelledDomain
from shiftcal.methods.networks.lite0_last_blocks import LITE0_LAST_BLOCKS, Lite0LastBlocks
from shiftcal.runs.comparison import ComparisonPlan, parse_contenders
from shiftcal.runs.comparison.plan import Folders
from shiftcal.runs.folder import RunFolder
from shiftcal.runs.reporting.figures.drawing import new_axes, new_figure, run_styles, shown
from shiftcal.runs.reproduction.base import Reproduction, Row, Scale, mean_of, values_of, visda_plan
from shiftcal.runs.run_data import load_domain_for
from shiftcal.runs.tasks import parse_tasks
from shiftcal.target.sampling import sampled_rows
from shiftcal.training.saved_model import load_model

_NUM_EXPLAINED = 200
_NUM_SHOWN = 6
# Of a picture on white, as a web shop has them: what counts as white, and how much of the rim has to be.
_WHITE, _WHITE_RIM = 0.9, 0.8
_SCORES = {"covered": "share of the object attended to", "on_object": "share of the attention on the object"}


@dataclass(frozen=True)
class Attention(Reproduction):
    """Grad-CAM of three ways of self-training, and how it covers the objects."""

    name: ClassVar[str] = "attention"
    item: ClassVar[str] = "Attention maps of the appendix"
    question: ClassVar[str] = "Does DRST look at more of an object than CBST and CRST do?"
    published: ClassVar[str] = (
        "By Grad-CAM on VisDA, DRST attends to the shape of an object, the others to a part of it or beside it; by "
        "eye, without a score."
    )
    shows_pictures: ClassVar[bool] = True
    methods: ClassVar[str] = "drst,cbst,crst"

    def plan(self, scale: Scale) -> ComparisonPlan:
        """Office-31 in place of VisDA: pictures of a web shop stand on white, so that the object is known."""
        contenders = parse_contenders(self.methods)
        if scale == "paper":
            return visda_plan(contenders)
        return ComparisonPlan(
            tuple(parse_tasks("office-31/webcam->office-31/amazon")),
            contenders,
            num_seeds=1,
            backbone=f"{LITE0_LAST_BLOCKS}:pretrained",
            image_size=96,
            settings=("epochs=2", "epoch_steps=60", "batch_size=16"),
        )

    def differs(self, scale: Scale) -> str:
        """Data, network and budget; and the score."""
        score = (
            f"The score is ours: over up to {_NUM_EXPLAINED} pictures, the share of the object where the map of the "
            "predicted class is at least half its maximum. "
        )
        if scale == "paper":
            return score + "The object is the whole of a picture, which VisDA has cut out around it."
        return score + (
            "Webcam to Amazon of Office-31 at 96 pixels, EfficientNet-Lite0 with its last blocks fine-tuned for 120 "
            "steps, in place of VisDA and a ResNet-101. The object is what is not white, in pictures on white."
        )

    def rows(self, cells: Folders) -> list[Row]:
        """One for each task, method, seed and picture."""
        rows: list[Row] = []
        for (task, method, seed), folder in cells.items():
            explained = _explained(folder, task, _NUM_EXPLAINED)
            for place, number in enumerate(explained.numbers):
                is_object = _object(explained.pictures[place])
                found = attention_coverage(explained.maps[place].numpy(), is_object.numpy())
                rows.append(
                    {
                        "task": task,
                        "method": method,
                        "seed": seed,
                        "picture": int(number),
                        "is_right": int(explained.predicted[place] == explained.labels[place]),
                        "object_share": float(is_object.double().mean()),
                        "covered": found.covered,
                        "on_object": found.on_object,
                    }
                )
        return rows

    def draw(self, rows: Sequence[Row]) -> Figure:
        """Both scores of each method."""
        figure = new_figure(5.2, 3.0)
        axes = new_axes(figure, "", "mean over pictures")
        methods = [str(method) for method in values_of(rows, "method")]
        for place, (method, (colour, _)) in enumerate(zip(methods, run_styles(len(methods)), strict=True)):
            means = [mean_of(rows, name, method=method) for name in _SCORES]
            positions = np.arange(len(_SCORES)) + 0.25 * place
            axes.bar(positions, means, width=0.23, color=colour, label=shown(method))
        axes.set_xticks(np.arange(len(_SCORES)) + 0.25, list(_SCORES.values()))
        axes.legend()
        return figure

    def draw_pictures(self, rows: Sequence[Row], cells: Folders) -> Figure:
        """A line for each picture: itself, then what each method looks at; of the first task and seed."""
        del rows
        shown_task, _, shown_seed = next(iter(cells))
        found = {
            method: _explained(folder, task, _NUM_SHOWN)
            for (task, method, seed), folder in cells.items()
            if (task, seed) == (shown_task, shown_seed)
        }
        num_shown = len(next(iter(found.values())).numbers)
        figure = new_figure(1.4 * (len(found) + 1), 1.4 * num_shown)
        grid = figure.subplots(num_shown, len(found) + 1, squeeze=False)
        for line, places in enumerate(grid):
            for column, axes in enumerate(places):
                explained = list(found.values())[max(column - 1, 0)]
                _show(axes, explained.pictures[line])
                if column:
                    axes.imshow(explained.maps[line].numpy(), cmap="jet", alpha=0.45, vmin=0, vmax=1)
        for axes, title in zip(grid[0], ("picture", *found), strict=True):
            axes.set_title(shown(title, 16), fontsize=8)
        return figure

    def finding(self, rows: Sequence[Row]) -> str:
        """Means of each method, with its accuracy on the same pictures."""
        lines = "; ".join(
            f"{method} {mean_of(rows, 'covered', method=str(method)):.3f} / "
            f"{mean_of(rows, 'on_object', method=str(method)):.3f} "
            f"(accuracy {mean_of(rows, 'is_right', method=str(method)):.3f})"
            for method in values_of(rows, "method")
        )
        return (
            f"Share of the object attended to / of the attention on the object: {lines}. The object takes "
            f"{mean_of(rows, 'object_share'):.3f} of a picture."
        )


class _Explained(NamedTuple):
    """Some pictures of a target, and what a classifier looks at in them."""

    numbers: NDArray[np.int64]
    labels: NDArray[np.int64]
    pictures: Tensor
    """(N, C, H, W) in [0, 1]."""
    predicted: NDArray[np.int64]
    maps: Tensor
    """(N, H, W) of the predicted class."""


def _explained(folder: RunFolder, task: str, most: int) -> _Explained:
    """Pictures on white, or any where a target has none."""
    model = load_model(folder.checkpoint)
    (named,) = parse_tasks(task)
    domain = load_domain_for(model, named.test or named.target)
    assert isinstance(domain, LabelledDomain)  # a comparison has labels
    # Of more than are wanted, for not all stand on white.
    numbers = sampled_rows(len(domain.labels), 2 * most)
    pictures = domain.inputs.fetch(numbers)
    chosen = [place for place, picture in enumerate(pictures) if _stands_on_white(picture)]
    chosen = (chosen or list(range(len(numbers))))[:most]
    numbers, pictures = numbers[chosen], pictures[chosen]

    def predict(inputs: Tensor) -> Tensor:
        return model.recipe.method.predict(model.network, inputs).logits

    with torch.no_grad():
        predicted = predict(pictures).argmax(dim=1)
    maps = torch.cat(
        [
            grad_cam(model.network, part, classes, predict=predict, layer=_layer(model.network))
            for part, classes in zip(torch.split(pictures, 50), torch.split(predicted, 50), strict=True)
        ]
    )
    labels = domain.labels_among(model.classes)[numbers]
    return _Explained(numbers, labels, pictures, predicted.numpy(), maps)


def _layer(network: Any) -> nn.Module | None:
    """Of EfficientNet-Lite0 the last one with maps of a sixteenth of the picture, which at 96 pixels are 6 x 6."""
    body = getattr(network, "task", network).backbone.body
    return body.kept if isinstance(body, Lite0LastBlocks) else None


def _stands_on_white(picture: Tensor) -> bool:
    white = picture.amin(dim=0) >= _WHITE
    rim = torch.cat([white[0], white[-1], white[:, 0], white[:, -1]])
    return bool(rim.double().mean() >= _WHITE_RIM)


def _object(picture: Tensor) -> Tensor:
    """Where (H, W) the object is: what is not white, or everything in a picture that does not stand on white."""
    if _stands_on_white(picture):
        return picture.amin(dim=0) < _WHITE
    return torch.ones(picture.shape[1:], dtype=torch.bool)


def _show(axes: Axes, picture: Tensor) -> None:
    axes.imshow(picture.clamp(0, 1).expand(3, -1, -1).permute(1, 2, 0).numpy())
    axes.set_xticks([])
    axes.set_yticks([])
