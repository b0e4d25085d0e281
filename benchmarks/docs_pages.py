"""The tables and figures of the pages in docs/ that show recorded runs of the benchmarks.

python -m benchmarks.docs_pages            # writes them
python -m benchmarks.docs_pages --check    # fails if a page is not what the records say
"""

from __future__ import annotations

import csv
import json
import math
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import matplotlib
from benchmarks.claims import claims_table
from matplotlib.figure import Figure

matplotlib.rcParams["svg.hashsalt"] = "shiftcal"  # the same figure is the same file
ROOT = Path(__file__).parents[1]
RECORDS = ROOT / "benchmarks"
DOCS = ROOT / "docs"

Row = Mapping[str, str]
CALIBRATION_METRICS = {
    "expected_calibration_error": "ECE",
    "brier_score": "Brier",
    "negative_log_likelihood": "NLL",
    "accuracy": "accuracy",
    "error_detection_auroc": "error AUROC",
}
ADAPTATION_METRICS = {
    "accuracy": "accuracy",
    "mean_per_class_accuracy": "per class",
    "expected_calibration_error": "ECE",
    "brier_score": "Brier",
}
REPRODUCED_METRICS = {
    "accuracy": "accuracy",
    "mean_class_accuracy": "per class",
    "ece": "ECE",
    "brier": "Brier",
}
PRECISION_METRICS = {f"precision_at_{share}": f"surest {share:.0%}" for share in (0.1, 0.25, 0.5)}
ROUND_METRICS = {"coverage": "share labelled", "true_precision": "right of these", "estimated_precision": "expected"}
COMPARED = ("source-only", "cbst", "crst", "mcc", "cpga", "drst+target-scaling")
MISSING = "–"
DRAWN = {"source-only": "#999999", "source-only+temperature": "#0072b2", "source-only+target-scaling": "#d55e00"}


def read(*names: str) -> list[Row]:
    """Rows of records, those that there are."""
    paths = [RECORDS / name for name in names if (RECORDS / name).exists()]
    return [row for path in paths for row in csv.DictReader(path.read_text(encoding="utf-8").splitlines())]


def average(rows: Iterable[Row], metric: str) -> float:
    """Mean over tasks of the mean over seeds, so that a task counts once however many seeds it has; NaN for none."""
    by_task = defaultdict(list)
    for row in rows:
        if row.get(metric):
            by_task[row["task"]].append(float(row[metric]))
    return mean(mean(values) for values in by_task.values()) if by_task else math.nan


def written(rows: list[Row], metrics: Mapping[str, str]) -> str:
    """The averages as cells of a line."""
    values = (average(rows, metric) for metric in metrics)
    return " | ".join(MISSING if math.isnan(value) else f"{value:.3f}" for value in values)


def crash_table(rows: list[Row]) -> str:
    """One line per way to fail: how often, and what became of it."""
    lines = ["| | times | resumed | identical | nothing left over |", "|---|---|---|---|---|"]
    names = ("scenario", "failures", "resumed", "identical", "nothing_left_over")
    return "\n".join([*lines, *(f"| {' | '.join(row[name] for name in names)} |" for row in rows)])


def time_table(measurements: Iterable[Mapping[str, Any]]) -> str:
    """One line per measurement of benchmarks/performance: processor seconds, and those of what it is held against."""
    lines = ["| what | size | CPU s | against | CPU s | ratio | bar | peak GB |", "|---" * 8 + "|"]
    for line in measurements:
        own, other = line["seconds"], line["against_seconds"]
        numbers = own, other, None if other is None else own / other, line["peak_gigabytes"]
        seconds, others, ratio, peak = ("" if number is None else f"{number:.3g}" for number in numbers)
        cells = line["what"], line["size"], seconds, line["against"] or "", others, ratio, line["bar"] or "", peak
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def measured(topic: str) -> list[Mapping[str, Any]]:
    """What was measured of a topic of benchmarks/performance."""
    record = json.loads((RECORDS / "performance" / "records" / f"{topic}.json").read_text(encoding="utf-8"))
    return list(record["measurements"])


def method_table(rows: list[Row], metrics: Mapping[str, str] = CALIBRATION_METRICS) -> str:
    """One line per method: how many tasks and seeds, and the means."""
    lines = ["| method | tasks | seeds | " + " | ".join(metrics.values()) + " |", "|---" * (3 + len(metrics)) + "|"]
    for method in dict.fromkeys(row["method"] for row in rows):
        own = [row for row in rows if row["method"] == method]
        num_tasks, num_seeds = len({row["task"] for row in own}), len({row["seed"] for row in own})
        lines.append(f"| {method} | {num_tasks} | {num_seeds} | {written(own, metrics)} |")
    return "\n".join(lines)


def ranked_table(rows: list[Row]) -> str:
    """Methods of a reproduction on the tasks and seeds that all of them have, the most accurate first."""
    cells = {
        method: {(row["task"], row["seed"]) for row in rows if row["method"] == method} for method in names(rows)
    }
    shared = set.intersection(*cells.values())
    own = [row for row in rows if (row["task"], row["seed"]) in shared]
    ranked = sorted(cells, key=lambda method: -average([row for row in own if row["method"] == method], "accuracy"))
    return method_table(sorted(own, key=lambda row: ranked.index(row["method"])), REPRODUCED_METRICS)


def names(rows: list[Row]) -> list[str]:
    """Methods in the order in which they occur."""
    return list(dict.fromkeys(row["method"] for row in rows))


def task_table(rows: list[Row], methods: tuple[str, ...], metric: str) -> str:
    """One line per task, one column per method: mean over seeds and, where there are several, the spread."""
    lines = ["| task | " + " | ".join(methods) + " |", "|---" * (1 + len(methods)) + "|"]
    for task in dict.fromkeys(row["task"] for row in rows):
        cells = []
        for method in methods:
            values = [float(row[metric]) for row in rows if (row["task"], row["method"]) == (task, method)]
            spread = f" ± {stdev(values):.3f}" if len(values) > 1 else ""
            cells.append(f"{mean(values):.3f}{spread}" if values else MISSING)
        lines.append(f"| {short(task)} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def short(task: str) -> str:
    """The name of a task without what its suite has in common."""
    return re.sub(r"office-(31|home)-features/|@.*?(?=->|$)", "", task)


def model_table(rows: list[Row]) -> str:
    """One line per kind of data, model and calibration."""
    metrics = CALIBRATION_METRICS
    lines = ["| data | model | calibration | " + " | ".join(metrics.values()) + " |"]
    lines.append("|---" * (3 + len(metrics)) + "|")
    by_kind = defaultdict(list)
    for row in rows:
        kind = "features" if "features" in row["task"] else "digits"
        by_kind[kind, row["model"], row["calibration"]].append(row)
    lines += [f"| {' | '.join(key)} | {written(own, metrics)} |" for key, own in by_kind.items()]
    return "\n".join(lines)


def set_table(rows: list[Row]) -> str:
    """One line per method and witness: coverage, and labels per set, for each coverage that was asked for."""
    wanted = list(dict.fromkeys(row["wanted"] for row in rows))
    lines = ["| method | sets by | " + " | ".join(f"{float(share):.0%} asked" for share in wanted) + " |"]
    lines.append("|---" * (2 + len(wanted)) + "|")
    cells = defaultdict(list)
    for row in rows:
        cells[row["method"], row["witness"]].append(
            f"{float(row['coverage']):.1%}, {float(row['labels']):.1f} labels"
        )
    lines += [f"| {' | '.join(key)} | {' | '.join(own)} |" for key, own in cells.items()]
    return "\n".join(lines)


def draw_errors(rows: list[Row]) -> Figure:
    """Target ECE on each task, of the three methods that matter most."""
    errors = {method: by_task(rows, method) for method in DRAWN}
    tasks = sorted(errors["source-only"], key=lambda task: errors["source-only"][task])
    figure = Figure(figsize=(8, 0.27 * len(tasks) + 1.2), layout="constrained")
    axes = figure.subplots()
    for method, colour in DRAWN.items():
        known = [(errors[method][task], place) for place, task in enumerate(tasks) if task in errors[method]]
        axes.scatter(*zip(*known, strict=True), color=colour, label=method, zorder=2)
    axes.set_yticks(range(len(tasks)), [short(task) for task in tasks])
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


def page_with(page: str, tables: Mapping[str, str]) -> str:
    """A page with the tables between their marks."""
    for name, table in tables.items():
        start, end = f"<!-- {name} -->\n", f"<!-- end {name} -->"
        before, rest = page.split(start)
        page = before + start + table + "\n" + end + rest.split(end)[1]
    return page


def main(arguments: list[str]) -> int:
    """Write the pages and the figures, or check the pages."""
    features, digits = read("calibration/results.csv"), read("calibration/digits_results.csv")
    adapted = read("reproduction/adaptation/adaptation.csv")
    few_labels = read("reproduction/ssl/ssl.csv")
    rounds = read("semi_supervised/rounds.csv")
    last_round = str(max((int(row["epoch"]) for row in rounds), default=0))
    pages = {
        "calibration.md": {
            "features": method_table(features),
            "digits": method_table(digits),
            "ablations": method_table(read("calibration/ablations.csv")),
            "trained models": model_table(read("shift_calibrator/results.csv")),
            "prediction sets": set_table(read("calibration/prediction_sets.csv")),
        },
        "estimates.md": {
            "estimates": (RECORDS / "accuracy_estimates/table.md").read_text(encoding="utf-8").strip(),
            "new classes": (RECORDS / "new_classes/results.md").read_text(encoding="utf-8").strip(),
        },
        "adaptation.md": {
            "all": ranked_table(adapted),
            "features": ranked_table([row for row in adapted if row["task"].startswith("office")]),
            "digits": ranked_table([row for row in adapted if not row["task"].startswith("office")]),
            "tasks": task_table(adapted, COMPARED, "accuracy"),
            "mixtures": (RECORDS / "adapted_mixtures/table.md").read_text(encoding="utf-8").strip(),
            "variants": method_table(read("adaptation/variants.csv"), ADAPTATION_METRICS),
        },
        "tables.md": {"models": (RECORDS / "tables/table.md").read_text(encoding="utf-8").strip()},
        "claims.md": {"claims": claims_table()},
        "performance.md": {
            path.stem: time_table(measured(path.stem))
            for path in sorted((RECORDS / "performance" / "records").glob("*.json"))
        },
        "reliability.md": {"crashes": crash_table(read("crashes/results.csv"))},
        "semi_supervised.md": {
            "record": ranked_table(few_labels),
            "record by task": task_table(few_labels, tuple(names(few_labels)), "accuracy"),
            "source": task_table(few_labels, tuple(names(few_labels)), "source_accuracy"),
            "labels": method_table([row for row in rounds if row["epoch"] == last_round], ROUND_METRICS),
            "precision": method_table(read("semi_supervised/precision.csv"), PRECISION_METRICS),
        },
    }
    for name, tables in pages.items():
        path = DOCS / name
        page = page_with(path.read_text(encoding="utf-8"), tables)
        if "--check" not in arguments:
            path.write_text(page, encoding="utf-8")
        elif page != path.read_text(encoding="utf-8"):
            print(f"{name} is not what the records say; run python -m benchmarks.docs_pages", file=sys.stderr)
            return 1
    if "--check" not in arguments:
        draw_errors([*features, *digits]).savefig(DOCS / "images" / "calibration.svg", metadata={"Date": None})
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
