"""Two Gaussians in the plane: what each way of learning makes of a shift whose densities are known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from matplotlib.figure import Figure
from numpy.typing import NDArray

from shiftcal.analysis import rank_correlation
from shiftcal.data.catalog.generated import GAUSSIANS, label_probability
from shiftcal.data.inputs import ArrayInputs
from shiftcal.runs.comparison import ComparisonPlan, parse_contenders
from shiftcal.runs.comparison.plan import Folders
from shiftcal.runs.reporting.figures.drawing import new_figure, plain, shown
from shiftcal.runs.reproduction.base import Reproduction, Row, Scale, mean_of, values_of
from shiftcal.runs.tasks import parse_tasks
from shiftcal.training.saved_model import load_model

_METHODS = "source-only,importance-weighting,rba,drl,calibrated"
_AXIS = np.linspace(-4.0, 4.0, 17)


@dataclass(frozen=True)
class Gaussian(Reproduction):
    """Boundary, ratio and confidence of each method on a grid."""

    name: ClassVar[str] = "gaussian"
    item: ClassVar[str] = "The form itself (section 3)"
    question: ClassVar[str] = "How sure is each method where the source has no rows, and is its ratio the true one?"
    published: ClassVar[str] = "The robust form is uniform where R goes to 0 and sure where the source is dense."

    def plan(self, scale: Scale) -> ComparisonPlan:
        """The same at either scale."""
        del scale
        tasks = tuple(parse_tasks("gaussian/source->gaussian/target"))
        return ComparisonPlan(
            tasks, parse_contenders(_METHODS), num_seeds=3, settings=("epochs=10", "epoch_steps=100")
        )

    def differs(self, scale: Scale) -> str:
        """It is not in the paper."""
        del scale
        return "The paper has no such picture; its predecessor (Liu, Ziebart 2014) has one for RBA."

    def rows(self, cells: Folders) -> list[Row]:
        """One for each method, seed and point of a grid."""
        points = _points()
        true_ratio = np.exp(GAUSSIANS["source"].log_density(points) - GAUSSIANS["target"].log_density(points))
        rows: list[Row] = []
        for (_, method, seed), folder in cells.items():
            outputs = load_model(folder.checkpoint).predict(ArrayInputs(torch.from_numpy(points).float()))
            probability = torch.softmax(outputs.logits.double(), dim=-1)[:, 1].numpy()
            brier = float(folder.read_metrics()["target"]["brier_score"] or 0)
            for number, (x, y) in enumerate(points):
                rows.append(
                    {
                        "method": method,
                        "seed": seed,
                        "x_1": float(x),
                        "x_2": float(y),
                        "probability": float(probability[number]),
                        "ratio": float(outputs.density_ratio[number]),
                        "true_probability": float(label_probability(points[number : number + 1])[0]),
                        "true_ratio": float(true_ratio[number]),
                        "target_brier": brier,
                    }
                )
        return rows

    def draw(self, rows: Sequence[Row]) -> Figure:
        """Confidence and boundary of each method, of the first seed, and the true ones."""
        methods = [str(method) for method in values_of(rows, "method")]
        figure = new_figure(2.3 * (len(methods) + 1), 2.7)
        axes = figure.subplots(1, len(methods) + 1, sharey=True)
        own = [[row for row in rows if row["method"] == method and row["seed"] == 0] for method in methods]
        panels = [("the truth", _grid(own[0], "true_probability"))]
        panels += [(shown(method), _grid(part, "probability")) for method, part in zip(methods, own, strict=True)]
        for place, (title, probability) in zip(axes, panels, strict=True):
            plain(place)
            confidence = np.maximum(probability, 1 - probability)
            place.contourf(_AXIS, _AXIS, confidence, levels=np.linspace(0.5, 1, 11), cmap="Blues")
            place.contour(_AXIS, _AXIS, probability, levels=[0.5], colors="#D55E00", linewidths=1.2)
            for domain, gaussian in GAUSSIANS.items():
                style = "-" if domain == "source" else "--"
                log_density = gaussian.log_density(_points()).reshape(len(_AXIS), len(_AXIS))
                place.contour(
                    _AXIS, _AXIS, log_density - log_density.max(), levels=[-2.0], colors="#333333", linestyles=style
                )
            place.set_title(title, fontsize=8)
        return figure

    def finding(self, rows: Sequence[Row]) -> str:
        """Brier score on the target, and how far each ratio orders points as the true one does."""
        parts = []
        for method in map(str, values_of(rows, "method")):
            own = [row for row in rows if row["method"] == method]
            ratios = ([float(row[name]) for row in own] for name in ("ratio", "true_ratio"))
            agreement = rank_correlation(*ratios, num_resamples=1).value
            parts.append(f"{method} {mean_of(rows, 'target_brier', method=method):.4f} ({agreement:.2f})")
        listed = "; ".join(parts)
        return f"Brier score on the target, and rank correlation of the ratio with the true one: {listed}."


def _points() -> NDArray[np.float64]:
    first, second = np.meshgrid(_AXIS, _AXIS)
    return np.stack([first.ravel(), second.ravel()], axis=1)


def _grid(rows: Sequence[Row], column: str) -> NDArray[np.float64]:
    """Values at the grid's points, in the order of `meshgrid`."""
    return np.array([float(row[column]) for row in rows]).reshape(len(_AXIS), len(_AXIS))
