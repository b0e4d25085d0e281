"""The README's picture: reliability on the target before and after, from the predictions of a demo run.

Usage: readme_picture.py DEMO_FOLDER OUT.png
"""

from __future__ import annotations

import sys
from pathlib import Path

from matplotlib.figure import Figure

from shiftcal.comparison import find_cells
from shiftcal.metrics import expected_calibration_error, reliability_curve
from shiftcal.predictions import Predictions, load_predictions

TASK, SEED = "digits/mnist->digits/uci", 0
SHOWN = {
    "source-only": "ordinary training",
    "source-only+temperature": "temperature scaling",
    "drl": "shiftcal (DRL)",
}


def main(demo: Path, out: Path) -> None:
    """Draw the three methods side by side."""
    cells = find_cells(demo)
    figure = Figure(figsize=(10.5, 3.7), layout="constrained", dpi=150)
    for axes, (method, title) in zip(figure.subplots(1, 3, sharey=True), SHOWN.items(), strict=True):
        draw(axes, load_predictions(cells[TASK, method, SEED].target_predictions), title)
    figure.suptitle(
        "MNIST digits to UCI digits, no target labels: how often is it right when it says so?", fontsize=11
    )
    out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(out)


def draw(axes: object, predictions: Predictions, title: str) -> None:
    """One reliability diagram."""
    from matplotlib.axes import Axes

    assert isinstance(axes, Axes)
    assert predictions.labels is not None
    curve = reliability_curve(predictions.probabilities, predictions.labels)
    filled = curve.count > 0
    left, width = curve.bin_edges[:-1][filled], 1 / len(curve.count)
    axes.bar(left, curve.accuracy[filled], width, align="edge", color="#d55e00", alpha=0.65, edgecolor="white")
    axes.plot([0, 1], [0, 1], color="#444", linestyle="--", linewidth=1)
    error = expected_calibration_error(predictions.probabilities, predictions.labels)
    axes.set(title=f"{title}\nECE {error:.3f}", xlabel="confidence", ylabel="accuracy", xlim=(0, 1), ylim=(0, 1))
    axes.label_outer()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
