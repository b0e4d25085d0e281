"""What the density ratio of `drl` means on a target: whether a low ratio marks the inputs that it gets wrong.

Every task of Office-31, Office-Home and digits. Where the target has no test part, every second row of it is kept
from training: all figures are of rows that the ratio did not see. AUROC is that of the ratio for being right. A
constant in its place is its geometric mean over the same rows; in mixtures with held-out rows of the source 25, 50
and 75 % are of the target. Beside it, on the same rows, `source-only` as it is and with temperature scaling.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
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
from shiftcal.training.fitted_model import FittedModel, source_split
from shiftcal.training.recipe import Recipe

TASKS = (*SUITES["office-31-features"], *SUITES["office-home-features"], *SUITES["digits"])
METRICS = {"accuracy": "accuracy", "brier": "brier_score", "ece": "expected_calibration_error"}
TRAINING = {"epochs": 10, "epoch_steps": 100}
SHARES = (0.25, 0.5, 0.75)


def measure(task: Task, seed: int) -> Iterator[dict[str, Any]]:
    """Of one task."""
    source, target = load_pair(task.source, task.target)
    assert isinstance(target, LabelledDomain)
    if task.test is not None:
        yield measured(source, target, lambda model: load_domain_for(model, str(task.test)), seed)
        return
    rows = np.arange(len(target))
    yield measured(source, target.subset(rows[::2]), lambda _: target.subset(rows[1::2]), seed)


def measured(
    source: LabelledDomain, seen: LabelledDomain, load_unseen: Callable[[FittedModel], object], seed: int
) -> dict[str, Any]:
    """Of networks that have seen these rows, on others."""
    training = {**TRAINING, "random_state": seed}
    problems = {"drl": ShiftProblem(source, seen.without_labels()), "source-only": ShiftProblem(source, None)}
    models = {name: fit_model(of, Recipe.from_names(name, training=training)) for name, of in problems.items()}
    unseen = load_unseen(models["drl"])
    held_out = source_split(source, models["drl"].recipe.training)[1]
    assert isinstance(unseen, LabelledDomain)
    assert held_out is not None
    labels, known = torch.from_numpy(unseen.labels_among(source.classes)), torch.from_numpy(held_out.labels)
    found: dict[str, Any] = {}
    for name, model in models.items():
        logits = model.predict(unseen.inputs).logits.double()
        temperature = fit_temperature(model.predict(held_out.inputs).logits.double(), known)
        found |= scores(logits, labels, name) | scores(logits / temperature, labels, f"{name}+temperature")
    method = models["drl"].recipe.method
    assert isinstance(method, DistributionallyRobust)
    on_target, on_source = (models["drl"].predict(domain.inputs) for domain in (unseen, held_out))
    right = on_target.logits.argmax(dim=-1) == labels
    for name, of_target, of_source in parts(len(labels), len(known)):
        logits = torch.cat([on_target.logits[of_target], on_source.logits[of_source]]).double()
        ratio = torch.cat([on_target.density_ratio[of_target], on_source.density_ratio[of_source]])
        truth = torch.cat([labels[of_target], known[of_source]])
        applied = method.applied_ratio(ratio.log()).double().unsqueeze(-1)
        constant = logits / applied * applied.log().mean().exp()
        found |= scores(logits, truth, name) | scores(constant, truth, f"{name} with a constant")
    return found | {"ratio auroc": roc_auc_score(right.numpy(), on_target.density_ratio.numpy())}


def parts(num_target: int, num_source: int) -> Iterator[tuple[str, Tensor, Tensor]]:
    """The target by itself, and mixtures: a name, and which rows of target and source."""
    yield "drl", torch.arange(num_target), torch.arange(0)
    generator = np.random.default_rng(0)
    for share in SHARES:
        size = min(num_target / share, num_source / (1 - share))
        of_target, of_source = (
            torch.from_numpy(generator.permutation(of_all)[: int(wanted)])
            for of_all, wanted in ((num_target, share * size), (num_source, (1 - share) * size))
        )
        yield mixture_name(share), of_target, of_source


def mixture_name(share: float) -> str:
    """Of so many shifted rows."""
    return f"{share:.0%} shifted"


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
    lines += ["", f"Accuracy / Brier / ECE. AUROC above .5 in {above} of {len(rows)} runs.", ""]
    lines += ["| rows | Brier with R | with a constant | R is ahead in |", "|---|---|---|---|"]
    for name, title in (("drl", "target"), *((mixture_name(share),) * 2 for share in SHARES)):
        with_ratio, with_constant = f"{name} brier", f"{name} with a constant brier"
        ahead = sum(float(row[with_ratio]) < float(row[with_constant]) for row in rows)
        means = (mean_of(rows, key) for key in (with_ratio, with_constant))
        lines.append(f"| {title} | {' | '.join(f'{mean:.4f}' for mean in means)} | {ahead} of {len(rows)} |")
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
