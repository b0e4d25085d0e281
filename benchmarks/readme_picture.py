"""The README's picture: reliability on the target, over all tasks and seeds of a demo run.

Usage: readme_picture.py DEMO_FOLDER OUT.png
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from shiftcal.metrics import expected_calibration_error, reliability_curve
from shiftcal.runs.comparison import find_cells
from shiftcal.runs.predictions import Predictions, load_predictions

SHOWN = {
    "source-only": "ordinary training",
    "source-only+temperature": "temperature scaling",
    "source-only+target-scaling": "shiftcal (target scaling)",
}


def main(demo: Path, out: Path) -> None:
    """Draw the three methods side by side."""
    cells = find_cells(demo)
    figure = Figure(figsize=(10.5, 3.8), layout="constrained", dpi=150)
    for axes, (method, title) in zip(figure.subplots(1, 3, sharey=True), SHOWN.items(), strict=True):
        runs = [load_predictions(cell.target_predictions) for (_, name, _), cell in cells.items() if name == method]
        draw(axes, runs, title)
    num_tasks, num_seeds = len({task for task, _, _ in cells}), len({seed for _, _, seed in cells})
    title = (
        f"How often is it right when it says so? {num_tasks} shifts between digits x {num_seeds} seeds, target data"
    )
    figure.suptitle(title, fontsize=11)
    out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(out)


def draw(axes: Axes, runs: list[Predictions], title: str) -> None:
    """One reliability diagram over the predictions of all runs."""
    probabilities = np.concatenate([run.probabilities for run in runs])
    labels = np.concatenate([run.labels for run in runs if run.labels is not None])
    curve = reliability_curve(probabilities, labels)
    filled = curve.count > 0
    left, width = curve.bin_edges[:-1][filled], 1 / len(curve.count)
    axes.bar(left, curve.accuracy[filled], width, align="edge", color="#d55e00", alpha=0.65, edgecolor="white")
    axes.plot([0, 1], [0, 1], color="#444", linestyle="--", linewidth=1)
    # The mean over runs, as in the table beside it: errors of opposite sign do not cancel between tasks.
    errors = [expected_calibration_error(run.probabilities, run.labels) for run in runs if run.labels is not None]
    title = f"{title}\nECE {np.mean(errors):.3f}"
    axes.set(title=title, xlabel="confidence", ylabel="accuracy", xlim=(0, 1), ylim=(0, 1))
    axes.label_outer()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
