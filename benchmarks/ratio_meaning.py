"""What the density ratio of `drl` means on a target: whether a low ratio marks the inputs that it gets wrong.

Every task of Office-31, Office-Home and digits. Where the target has no test part, every second row of it is kept
from training: all figures are of rows that the ratio did not see. AUROC is that of the ratio for being right. A
constant in its place is its geometric mean over the same rows; "mixed" rows are held-out rows of the source and as
many of the target, where it has as many. Beside it, on the same rows, `source-only` as it is and with temperature
scaling.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import torch
from benchmarks.frame import Benchmark, Job, Rows
from sklearn.metrics import roc_auc_score
from torch import Tensor

from shiftcal.data.batches import ShiftProblem
from shiftcal.data.domains import LabelledDomain
from shiftcal.data.specs import load_pair
from shiftcal.functional.temperature import fit_temperature
from shiftcal.methods.drl import DistributionallyRobust
from shiftcal.metrics import compute_metrics
from shiftcal.runs.reproduction.base import mean_of
from shiftcal.runs.run_data import load_domain_for
from shiftcal.runs.tasks import SUITES, Task
from shiftcal.training.fit import fit_model
from shiftcal.training.fitted_model import source_split
from shiftcal.training.recipe import Recipe

TASKS = (*SUITES["office-31-features"], *SUITES["office-home-features"], *SUITES["digits"])
METRICS = {"accuracy": "accuracy", "brier": "brier_score", "ece": "expected_calibration_error"}
TRAINING = {"epochs": 10, "epoch_steps": 100}


def measure(task: Task, seed: int) -> Iterator[dict[str, Any]]:
    """Of one network."""
    source, target = load_pair(task.source, task.target)
    assert isinstance(target, LabelledDomain)
    rows = np.arange(len(target))
    seen = target.subset(rows[::2]) if task.test is None else target
    training = {**TRAINING, "random_state": seed}
    problems = {"drl": ShiftProblem(source, seen.without_labels()), "source-only": ShiftProblem(source, None)}
    models = {name: fit_model(of, Recipe.from_names(name, training=training)) for name, of in problems.items()}
    unseen = target.subset(rows[1::2]) if task.test is None else load_domain_for(models["drl"], task.test)
    held_out = source_split(source, models["drl"].recipe.training)[1]
    assert isinstance(unseen, LabelledDomain)
    assert held_out is not None
    labels, known = torch.from_numpy(unseen.labels_among(source.classes)), torch.from_numpy(held_out.labels)
    measured: dict[str, Any] = {}
    for name, model in models.items():
        logits = model.predict(unseen.inputs).logits.double()
        temperature = fit_temperature(model.predict(held_out.inputs).logits.double(), known)
        measured |= scores(logits, labels, name) | scores(logits / temperature, labels, f"{name}+temperature")
    method = models["drl"].recipe.method
    assert isinstance(method, DistributionallyRobust)
    on_target, on_source = (models["drl"].predict(domain.inputs) for domain in (unseen, held_out))
    right = on_target.logits.argmax(dim=-1) == labels
    part = torch.from_numpy(np.random.default_rng(0).permutation(len(labels))[: len(known)])
    for name, logits, ratio, truth in (
        ("drl", on_target.logits, on_target.density_ratio, labels),
        (
            "mixed",
            torch.cat([on_target.logits[part], on_source.logits]),
            torch.cat([on_target.density_ratio[part], on_source.density_ratio]),
            torch.cat([labels[part], known]),
        ),
    ):
        applied = method.applied_ratio(ratio.log()).double().unsqueeze(-1)
        constant = logits.double() / applied * applied.log().mean().exp()
        measured |= scores(logits.double(), truth, name) | scores(constant, truth, f"{name} with a constant")
    yield measured | {"ratio auroc": roc_auc_score(right.numpy(), on_target.density_ratio.numpy())}


def scores(logits: Tensor, labels: Tensor, name: str) -> dict[str, float]:
    """Of predictions by one name."""
    metrics = compute_metrics(torch.softmax(logits, dim=-1).numpy(), labels.numpy())
    return {f"{name} {short}": float(metrics[metric]) for short, metric in METRICS.items()}


def table(rows: Rows) -> str:
    """By task, means, and how often the ratio is of use."""
    methods = ("source-only", "source-only+temperature", "drl", "drl+temperature")
    lines = [f"| task | {' | '.join(methods)} | AUROC of R |", "|---" * 6 + "|"]
    for task in [*dict.fromkeys(row["task"] for row in rows), "mean"]:
        own = [row for row in rows if task in (row["task"], "mean")]
        cells = [" / ".join(f"{mean_of(own, f'{method} {short}'):.3f}" for short in METRICS) for method in methods]
        lines.append(f"| {task} | {' | '.join(cells)} | {mean_of(own, 'ratio auroc'):.3f} |")
    above = sum(float(row["ratio auroc"]) > 0.5 for row in rows)
    better = {
        name: sum(float(row[f"{name} brier"]) < float(row[f"{name} with a constant brier"]) for row in rows)
        for name in ("drl", "mixed")
    }
    means = {
        name: f"{mean_of(rows, f'{name} brier'):.3f} against {mean_of(rows, f'{name} with a constant brier'):.3f}"
        for name in better
    }
    lines += [
        "",
        f"Accuracy / Brier / ECE. AUROC above .5 in {above} of {len(rows)} runs. With R the Brier score is below "
        f"that with a constant in {better['drl']} of them ({means['drl']}), on mixed rows in {better['mixed']} "
        f"({means['mixed']}).",
    ]
    return "\n".join(lines) + "\n"


def declare(parser: argparse.ArgumentParser) -> None:
    """How often."""
    parser.add_argument("--seeds", type=int, default=1)


def jobs(arguments: argparse.Namespace) -> Iterator[Job]:
    """Every task with every seed."""
    for task in TASKS:
        for seed in range(arguments.seeds):
            yield Job({"task": task.name, "seed": seed}, partial(measure, task, seed))


BENCHMARKS = {"ratio_meaning": Benchmark(jobs, table, declare)}
