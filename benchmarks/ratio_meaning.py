"""What the density ratio of `drl` means on a target: whether a low ratio marks the inputs that it gets wrong.

Every task of Office-31, Office-Home and digits. Where the target has no test part, every second row of it is kept
from training: all figures are of rows that the ratio did not see. AUROC is that of the ratio for being right. A
constant in its place is its geometric mean over the same rows; "mixed" rows are held-out rows of the source and as
many of the target, where it has as many.
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

from shiftcal.data.batches import ShiftProblem
from shiftcal.data.domains import LabelledDomain
from shiftcal.data.specs import load_pair
from shiftcal.methods.base import Outputs
from shiftcal.methods.drl import DistributionallyRobust
from shiftcal.metrics import brier_score
from shiftcal.runs.reproduction.base import mean_of
from shiftcal.runs.run_data import load_domain_for
from shiftcal.runs.tasks import SUITES, Task
from shiftcal.training.fit import fit_model
from shiftcal.training.fitted_model import FittedModel, source_split
from shiftcal.training.recipe import Recipe

TASKS = (*SUITES["office-31-features"], *SUITES["office-home-features"], *SUITES["digits"])
TRAINING = {"epochs": 10, "epoch_steps": 100}


def measure(task: Task, seed: int) -> Iterator[dict[str, Any]]:
    """Of one network."""
    source, target = load_pair(task.source, task.target)
    assert isinstance(target, LabelledDomain)
    rows = np.arange(len(target))
    seen = target.subset(rows[::2]) if task.test is None else target
    recipe = Recipe.from_names("drl", training={**TRAINING, "random_state": seed})
    model = fit_model(ShiftProblem(source, seen.without_labels()), recipe)
    unseen = target.subset(rows[1::2]) if task.test is None else load_domain_for(model, task.test)
    assert isinstance(unseen, LabelledDomain)
    held_out = source_split(source, model.recipe.training)[1]
    assert held_out is not None
    on_target, on_source = model.predict(unseen.inputs), model.predict(held_out.inputs)
    labels = unseen.labels_among(source.classes)
    right = on_target.logits.argmax(dim=-1).numpy() == labels
    part = np.random.default_rng(0).permutation(len(labels))[: len(held_out)]
    mixed = Outputs(
        torch.cat([on_target.logits[part], on_source.logits]),
        torch.cat([on_target.density_ratio[part], on_source.density_ratio]),
        torch.cat([on_target.features[part], on_source.features]),
    )
    yield {
        "accuracy": right.mean(),
        "ratio_auroc": roc_auc_score(right, on_target.density_ratio.numpy()),
        **briers(model, on_target, labels, ""),
        **briers(model, mixed, np.concatenate([labels[part], held_out.labels]), "mixed_"),
    }


def briers(model: FittedModel, outputs: Outputs, labels: np.ndarray, prefix: str) -> dict[str, float]:
    """Brier scores with the ratio and with its geometric mean over the rows in its place."""
    method = model.recipe.method
    assert isinstance(method, DistributionallyRobust)
    applied = method.applied_ratio(outputs.density_ratio.log()).double().unsqueeze(-1)
    constant = outputs.logits.double() / applied * applied.log().mean().exp()
    found = {"brier": outputs.logits.double(), "brier_of_constant": constant}
    return {
        prefix + name: brier_score(torch.softmax(logits, dim=-1).numpy(), labels) for name, logits in found.items()
    }


def table(rows: Rows) -> str:
    """Means, and how often the ratio is of use."""
    aurocs = [float(row["ratio_auroc"]) for row in rows]
    lines = [
        "| task | accuracy | AUROC of R for being right | Brier with R, with a constant | the same, mixed |",
        "|---" * 5 + "|",
    ]
    for task in dict.fromkeys(row["task"] for row in rows):
        lines.append(_line(task, [row for row in rows if row["task"] == task]))
    lines.append(_line("mean", rows))
    better = {
        prefix: sum(float(row[f"{prefix}brier"]) < float(row[f"{prefix}brier_of_constant"]) for row in rows)
        for prefix in ("", "mixed_")
    }
    above = sum(auroc > 0.5 for auroc in aurocs)
    return (
        "\n".join(lines)
        + f"\n\nAUROC above .5 on {above} of {len(rows)} runs; Brier lower with R than with a constant "
        f"on {better['']} of them, mixed on {better['mixed_']}.\n"
    )


def _line(name: str, rows: Rows) -> str:
    def mean(column: str) -> str:
        return f"{mean_of(rows, column):.3f}"

    pairs = [f"{mean(prefix + 'brier')}, {mean(prefix + 'brier_of_constant')}" for prefix in ("", "mixed_")]
    return f"| {name} | {mean('accuracy')} | {mean('ratio_auroc')} | {pairs[0]} | {pairs[1]} |"


def declare(parser: argparse.ArgumentParser) -> None:
    """How often."""
    parser.add_argument("--seeds", type=int, default=1)


def jobs(arguments: argparse.Namespace) -> Iterator[Job]:
    """Every task with every seed."""
    for task in TASKS:
        for seed in range(arguments.seeds):
            yield Job({"task": task.name, "seed": seed}, partial(measure, task, seed))


BENCHMARKS = {"ratio_meaning": Benchmark(jobs, table, declare)}
