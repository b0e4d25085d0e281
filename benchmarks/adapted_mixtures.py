"""What the density ratio of `adapted` is worth: self-training on targets of which only a part has shifted.

Nine pairs of Office-31 and Office-Home domains (features of EfficientNet-Lite2); 25, 50 and 75 % of the rows are
of the other domain, the rest are rows of the source that neither trained nor calibrated anything. `adapted` is `drst`
with `target-scaling`; a constant in its ratio's place takes every row for shifted, in the choice of pseudo-labels, in
calibration, or in both. Beside it `source-only` with the same calibrator, and `mcc` as it is.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from benchmarks.frame import Benchmark, Job, Rows
from benchmarks.mixtures import PAIRS, SHARES
from torch import Tensor

from shiftcal.calibrators.base import CalibrationData
from shiftcal.calibrators.target_scaling import TargetScaling
from shiftcal.data.batches import ShiftProblem
from shiftcal.data.domains import LabelledDomain
from shiftcal.data.inputs import ArrayInputs
from shiftcal.data.specs import load_pair
from shiftcal.metrics import compute_metrics
from shiftcal.runs.reproduction.base import mean_of, values_of
from shiftcal.target.evidence import ObservedRows
from shiftcal.target.scaling import fit_scaling
from shiftcal.training.fit import fit_model
from shiftcal.training.recipe import Recipe

SUITES = {"office31": "office-31-features", "officehome": "office-home-features"}
TRAINING = {"epochs": 10, "epoch_steps": 100}
METRICS = {"accuracy": "accuracy", "ece": "expected_calibration_error", "brier": "brier_score"}
# Method, its options, and the names of its rows: as calibrated, and with a constant in calibration; None: left out.
CONTENDERS: tuple[tuple[str, dict[str, Any], str, str | None], ...] = (
    ("source-only", {}, "source-only+target-scaling", None),
    ("drst", {}, "adapted", "a constant in calibration"),
    ("drst", {"shifted_rows_only": False}, "a constant in the choice of labels", "a constant in both"),
)
RIVAL = "mcc"


class Mixture(NamedTuple):
    """A task of two parts."""

    problem: ShiftProblem
    target_labels: Tensor
    num_shifted: int


def mixture(source_name: str, target_name: str, share: float, seed: int) -> Mixture:
    """With as many rows as there are of the part that is scarcer."""
    source, target = load_pair(source_name, target_name)
    assert isinstance(target, LabelledDomain)
    generator = np.random.default_rng(seed)
    order, others = generator.permutation(len(source)), generator.permutation(len(target))
    kept_back = len(source) // 4
    size = min(kept_back / (1 - share), len(target) / share)
    new, same = others[: int(share * size)], order[: int(size) - int(share * size)]
    inputs = [part.inputs.fetch(rows) for part, rows in ((target, new), (source, same))]
    labels = np.concatenate([target.labels_among(source.classes)[new], source.labels[same]])
    mixed = LabelledDomain("mixture", ArrayInputs(torch.cat(inputs)), labels, source.classes)
    rest = source.subset(np.sort(order[kept_back:]))
    return Mixture(ShiftProblem(rest, mixed.without_labels()), torch.from_numpy(labels), len(new))


def measure(source_name: str, target_name: str, share: float, seed: int) -> Iterator[dict[str, Any]]:
    """Each contender on a mixture."""
    problem, labels, num_shifted = mixture(source_name, target_name, share, seed)
    training = {**TRAINING, "random_state": seed}

    def scores(contender: str, logits: Tensor) -> dict[str, Any]:
        probabilities = torch.softmax(logits.double(), dim=-1).numpy()
        metrics = compute_metrics(probabilities, labels.numpy())
        right = (probabilities.argmax(axis=1) == labels.numpy())[:num_shifted]
        found = {short: metrics[name] for short, name in METRICS.items()}
        return {"contender": contender, **found, "accuracy_of_shifted": right.mean()}

    assert problem.target is not None
    for method, options, name, alike_name in CONTENDERS:
        recipe = Recipe.from_names(method, "target-scaling", method_options=options, training=training)
        model = fit_model(problem, recipe)
        yield scores(name, model.predict(problem.target.inputs).logits)
        if alike_name is not None:
            yield scores(alike_name, scaled_alike(model.observed(problem)))
    model = fit_model(problem, Recipe.from_names(RIVAL, training=training))
    yield scores(RIVAL, model.predict(problem.target.inputs).logits)


def scaled_alike(data: CalibrationData) -> Tensor:
    """Logits (N, C) of target scaling that takes every row of the target for shifted."""
    calibrator = TargetScaling()
    evidence, found = data.evidence(as_judged=False), calibrator.diagnose(data)
    assert evidence is not None
    assert found is not None

    def with_constant(rows: ObservedRows, value: float) -> ObservedRows:
        return replace(rows, target_probability=torch.full_like(rows.target_probability, value))

    held_out, target = with_constant(evidence.held_out, 0.0), with_constant(evidence.target, 1.0)
    alike = replace(evidence, held_out=held_out, target=target, known_structure=evidence.structure)
    vote = calibrator.cluster_vote * found.cluster_reliability
    return fit_scaling(alike, found.confidence_to_reach, vote).scaled_logits(target)


def table(rows: Rows) -> str:
    """Means of each contender by share, and how often `adapted` is ahead of itself with a constant."""
    shares = list(map(str, values_of(rows, "share")))
    titles = [f"{float(share):.0%} shifted" for share in shares]
    lines = [
        "Accuracy of all rows (of the shifted ones) / ECE / Brier.",
        "",
        f"| contender | {' | '.join(titles)} |",
        "|---" * (1 + len(shares)) + "|",
    ]
    for name in map(str, values_of(rows, "contender")):
        lines.append(f"| {name} | {' | '.join(_cell(rows, name, share) for share in shares)} |")
    for rival in ("a constant in both", "a constant in calibration", "a constant in the choice of labels"):
        # What is predicted does not depend on calibration.
        metrics = ("brier",) if rival == "a constant in calibration" else ("brier", "accuracy")
        ahead = {metric: _ahead(rows, rival, metric) for metric in metrics}
        lines += ["", f"`adapted` against {rival}: {_spoken(ahead)}."]
    return "\n".join(lines) + "\n"


def _cell(rows: Rows, contender: str, share: str) -> str:
    def mean(name: str) -> str:
        return f"{mean_of(rows, name, contender=contender, share=share):.3f}"

    return f"{mean('accuracy')} ({mean('accuracy_of_shifted')}) / {mean('ece')} / {mean('brier')}"


def _ahead(rows: Rows, rival: str, metric: str) -> dict[str, list[bool]]:
    """By share, of each mixture whether `adapted` is ahead."""
    found: dict[str, list[bool]] = {}
    for own in rows:
        if own["contender"] != "adapted":
            continue
        other = next(
            row
            for row in rows
            if row["contender"] == rival and (row["mixture"], row["seed"]) == (own["mixture"], own["seed"])
        )
        gain = float(own[metric]) - float(other[metric])
        found.setdefault(str(own["share"]), []).append(gain > 0 if metric == "accuracy" else gain < 0)
    return found


def _spoken(ahead: dict[str, dict[str, list[bool]]]) -> str:
    return "; ".join(
        f"{metric} better on "
        + ", ".join(f"{sum(wins)} of {len(wins)} at {float(share):.0%}" for share, wins in by_share.items())
        for metric, by_share in ahead.items()
    )


def declare(parser: argparse.ArgumentParser) -> None:
    """How often."""
    parser.add_argument("--seeds", type=int, default=1)


def jobs(arguments: argparse.Namespace) -> Iterator[Job]:
    """Every mixture with every seed."""
    for seed in range(arguments.seeds):
        for name, pairs in PAIRS.items():
            for source, target in pairs:
                for share in SHARES:
                    key = {"mixture": f"{source}->{target} {share}", "share": share, "seed": seed}
                    own, other = (f"{SUITES[name]}/{domain}" for domain in (source, target))
                    yield Job(key, partial(measure, own, other, share, seed))


BENCHMARKS = {"adapted_mixtures": Benchmark(jobs, table, declare)}
