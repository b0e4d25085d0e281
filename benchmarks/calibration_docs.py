"""The tables and the figure of docs/calibration.md, made from the records of the benchmarks.

python benchmarks/calibration_docs.py            # writes them
python benchmarks/calibration_docs.py --check    # fails if the page is not what the records say
"""

from __future__ import annotations

import csv
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from statistics import mean

from matplotlib.figure import Figure

ROOT = Path(__file__).parents[1]
RECORDS = ROOT / "benchmarks"
PAGE = ROOT / "docs" / "calibration.md"
FIGURE = ROOT / "docs" / "images" / "calibration.svg"

Row = Mapping[str, str]
METRICS = {
    "expected_calibration_error": "ECE",
    "brier_score": "Brier",
    "negative_log_likelihood": "NLL",
    "accuracy": "accuracy",
    "error_detection_auroc": "error AUROC",
}
DRAWN = {"source-only": "#999999", "source-only+temperature": "#0072b2", "drl": "#d55e00"}


def read(*names: str) -> list[Row]:
    """Rows of records, those that there are."""
    return [row for name in names if (RECORDS / name).exists() for row in csv.DictReader((RECORDS / name).open())]


def average(rows: Iterable[Row], metric: str) -> float:
    """Mean over tasks of the mean over seeds, so that a task counts once however many seeds it has."""
    by_task = defaultdict(list)
    for row in rows:
        by_task[row["task"]].append(float(row[metric]))
    return mean(mean(values) for values in by_task.values())


def method_table(rows: list[Row]) -> str:
    """One line per method: how many tasks and seeds, and the means."""
    lines = ["| method | tasks | seeds | " + " | ".join(METRICS.values()) + " |", "|---" * (3 + len(METRICS)) + "|"]
    for method in dict.fromkeys(row["method"] for row in rows):
        own = [row for row in rows if row["method"] == method]
        num_tasks, num_seeds = len({row["task"] for row in own}), len({row["seed"] for row in own})
        values = " | ".join(f"{average(own, metric):.3f}" for metric in METRICS)
        lines.append(f"| {method} | {num_tasks} | {num_seeds} | {values} |")
    return "\n".join(lines)


def model_table(rows: list[Row]) -> str:
    """One line per model and calibration."""
    lines = ["| model | calibration | " + " | ".join(METRICS.values()) + " |", "|---" * (2 + len(METRICS)) + "|"]
    for model, calibration in dict.fromkeys((row["model"], row["calibration"]) for row in rows):
        own = [row for row in rows if (row["model"], row["calibration"]) == (model, calibration)]
        values = " | ".join(f"{average(own, metric):.3f}" for metric in METRICS)
        lines.append(f"| {model} | {calibration} | {values} |")
    return "\n".join(lines)


def draw(rows: list[Row]) -> Figure:
    """Target ECE on each task, of the three methods that matter most."""
    errors = {method: by_task(rows, method) for method in DRAWN}
    tasks = sorted(errors["source-only"], key=lambda task: errors["source-only"][task])
    figure = Figure(figsize=(8, 0.27 * len(tasks) + 1.2), layout="constrained")
    axes = figure.subplots()
    for method, colour in DRAWN.items():
        known = [(errors[method][task], place) for place, task in enumerate(tasks) if task in errors[method]]
        axes.scatter(*zip(*known, strict=True), color=colour, label=method, zorder=2)
    axes.set_yticks(range(len(tasks)), [re.sub(r"office-(31|home)-features/|@.*", "", task) for task in tasks])
    axes.set(xlabel="expected calibration error on the target (mean over seeds)", xlim=(0, None))
    axes.grid(axis="x", alpha=0.3)
    axes.legend()
    return figure


def by_task(rows: list[Row], method: str) -> dict[str, float]:
    """Target ECE of a method by task, mean over seeds."""
    own = [row for row in rows if row["method"] == method]
    return {
        task: average([row for row in own if row["task"] == task], "expected_calibration_error")
        for task in dict.fromkeys(row["task"] for row in own)
    }


def page_with(tables: Mapping[str, str]) -> str:
    """The page with the tables between their marks."""
    page = PAGE.read_text(encoding="utf-8")
    for name, table in tables.items():
        start, end = f"<!-- {name} -->\n", f"<!-- end {name} -->"
        before, rest = page.split(start)
        page = before + start + table + "\n" + end + rest.split(end)[1]
    return page


def main(arguments: list[str]) -> int:
    """Write the page and the figure, or check the page."""
    features, digits = read("calibration/results.csv"), read("calibration/digits_results.csv")
    tables = {
        "features": method_table(features),
        "digits": method_table(digits),
        "ablations": method_table(read("calibration/ablations.csv")),
        "trained models": model_table(read("shift_calibrator/results.csv")),
    }
    page = page_with(tables)
    if "--check" in arguments:
        if page != PAGE.read_text(encoding="utf-8"):
            print(f"{PAGE.name} is not what the records say; run benchmarks/calibration_docs.py", file=sys.stderr)
            return 1
        return 0
    PAGE.write_text(page, encoding="utf-8")
    draw([*features, *digits]).savefig(FIGURE, metadata={"Date": None})
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
