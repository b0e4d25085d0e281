"""Figure 6: who is right on inputs that are unlike the source."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from matplotlib.figure import Figure

from shiftcal.analysis import accuracy_by_ratio
from shiftcal.runs.comparison import ComparisonPlan, parse_contenders
from shiftcal.runs.comparison.plan import Folders
from shiftcal.runs.predictions import load_predictions
from shiftcal.runs.reproduction.base import Reproduction, Row, Scale, draw_bins, mean_of, values_of, visda_plan
from shiftcal.runs.tasks import SUITES

_OWN = "drst"
_METHODS = f"{_OWN},cbst,crst,mcc,source-only"
_NUM_BINS = 5


@dataclass(frozen=True)
class HardExamples(Reproduction):
    """Accuracy of DRST and its rivals in bins of DRST's density ratio."""

    name: ClassVar[str] = "hard-examples"
    item: ClassVar[str] = "Figure 6"
    question: ClassVar[str] = "Where does DRST gain: on inputs that look unlike the source?"
    published: ClassVar[str] = "DRST's lead over CBST and CRST is largest where its density ratio is lowest."

    def plan(self, scale: Scale) -> ComparisonPlan:
        """Digits and Office-Home features in place of VisDA."""
        contenders = parse_contenders(_METHODS)
        if scale == "paper":
            return visda_plan(contenders)
        tasks = (*SUITES["digits"], *SUITES["office-home-features"])
        return ComparisonPlan(tasks, contenders, settings=("epochs=10", "epoch_steps=100"))

    def differs(self, scale: Scale) -> str:
        """Data, network and budget."""
        if scale == "paper":
            return "All methods start from ImageNet weights, not from a source-only run."
        return "Digits with a small network and Office-Home features in place of VisDA; 10 epochs of 100 steps."

    def rows(self, cells: Folders) -> list[Row]:
        """One for each task, seed, bin and method."""
        rows: list[Row] = []
        for (task, method, seed), folder in cells.items():
            if method != _OWN:
                continue
            ratio = load_predictions(folder.target_predictions).density_ratio
            right = {}
            for (other_task, other, other_seed), other_folder in cells.items():
                if (other_task, other_seed) == (task, seed):
                    predictions = load_predictions(other_folder.target_predictions)
                    right[other] = predictions.predicted == predictions.labels
            for number, found in enumerate(accuracy_by_ratio(ratio, right, _NUM_BINS)):
                for name, accuracy in found.accuracy.items():
                    rows.append(
                        {
                            "task": task,
                            "seed": seed,
                            "bin": number,
                            "median_ratio": found.median_ratio,
                            "num_inputs": found.num_inputs,
                            "method": name,
                            "accuracy": accuracy,
                        }
                    )
        return rows

    def draw(self, rows: Sequence[Row]) -> Figure:
        """Accuracy by bin, means over tasks and seeds."""
        means = {
            str(method): [mean_of(rows, "accuracy", method=str(method), bin=number) for number in range(_NUM_BINS)]
            for method in values_of(rows, "method")
        }
        x_label = "fifth of the target by DRST's density ratio, the least source-like first"
        return draw_bins(means, [str(number + 1) for number in range(_NUM_BINS)], x_label, "accuracy")

    def finding(self, rows: Sequence[Row]) -> str:
        """Leads over each rival in the first and the last bin."""
        leads = "; ".join(
            f"over {method} {self._lead(rows, str(method), 0):+.3f} in the least source-like fifth, "
            f"{self._lead(rows, str(method), _NUM_BINS - 1):+.3f} in the most"
            for method in values_of(rows, "method")
            if method != _OWN
        )
        own = [f"{mean_of(rows, 'accuracy', method=_OWN, bin=number):.3f}" for number in range(_NUM_BINS)]
        return f"Accuracy of `drst` by fifth: {' '.join(own)}. Its lead {leads}."

    def _lead(self, rows: Sequence[Row], method: str, number: int) -> float:
        return mean_of(rows, "accuracy", method=_OWN, bin=number) - mean_of(
            rows, "accuracy", method=method, bin=number
        )
