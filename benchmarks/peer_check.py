"""Our baselines beside those of two other libraries, skada and pytorch-adapt: is any of ours a weak one?

    pip install -c constraints.txt skada skorch pytorch-adapt "setuptools<81"   # torchmetrics needs pkg_resources
    SHIFTCAL_DATA=... python -m benchmarks peer_check --out FILE.csv

All get the same rows of Office-31 features (the whole source, the whole target without labels), standardised alike;
the network 1280-256-ReLU-31; AdamW with one step size and a cosine schedule; batches of 64 + 64; the same number of
steps; the same seeds. Source-only is the control: where it differs, so does the set-up. What belongs to a method
(loss weights, discriminators) is each library's own, and where defaults differ ours also runs with the peer's.

skada runs by its estimators. pytorch-adapt has no loop for arrays: its adapters get the very batches that ours get.
"""

from __future__ import annotations

import argparse
import importlib
import math
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from typing import Any, NamedTuple

import numpy as np
import torch
from benchmarks.frame import Benchmark, Job, Rows
from torch import Tensor, nn
from torch.optim import AdamW
from torch.optim.lr_scheduler import LambdaLR

from shiftcal.core.vision_guard import import_torchvision
from shiftcal.data.batches import Batch, BatchPlan, PseudoLabels, ShiftProblem, iterate_batches
from shiftcal.data.domains import LabelledDomain
from shiftcal.data.inputs import ArrayInputs
from shiftcal.data.specs import load_pair
from shiftcal.metrics import compute_metrics
from shiftcal.training.fit import fit_model
from shiftcal.training.optimizers import schedule_factor
from shiftcal.training.recipe import Recipe

TASKS = (("amazon", "webcam"), ("webcam", "amazon"), ("dslr", "amazon"))
INSTALL = 'pip install -c constraints.txt skada skorch pytorch-adapt "setuptools<81"'
COMMAND = "SHIFTCAL_DATA=... python -m benchmarks peer_check"
NUM_SEEDS = 3
STEPS, BATCH_SIZE, WIDTH = 1000, 64, 256
# Of CDAN's discriminator, and of the random product that it sees, as published.
CDAN_WIDTH = 1024
# Its CDANE is what ours is by default: sure predictions count more.
PYTORCH_ADAPT = {
    "source-only": "Classifier",
    "dann": "DANN",
    "cdan": "CDANE",
    "adda": "ADDA",
    "mcd": "MCD",
    "vada": "VADA",
}
# shiftcal's defaults, given to all; of ADDA's second stage, the last half of the steps, step size and discriminator.
ADAMW = {"lr": 1e-3, "weight_decay": 5e-4, "eps": 1e-6}
ADDA_RATE, ADDA_WIDTH = 2e-4, 500


class Setting(NamedTuple):
    """What every library gets: data, budget and seed."""

    source: LabelledDomain
    target: LabelledDomain
    seed: int

    @property
    def epoch_steps(self) -> int:
        """Whole batches in the source: skada leaves out the rest of an epoch, so all do."""
        return len(self.source) // BATCH_SIZE

    @property
    def epochs(self) -> int:
        """As many as give about STEPS steps."""
        return math.ceil(STEPS / self.epoch_steps)

    @property
    def problem(self) -> ShiftProblem:
        """The target without its labels."""
        return ShiftProblem(self.source, self.target.without_labels())

    def new_schedule(self) -> Callable[[int], float]:
        """Factor of the step size by the number of the step."""
        factor, steps = schedule_factor("cosine"), self.epochs * self.epoch_steps
        return lambda step: factor(step / steps)

    def batches(self, epoch: int, pseudo_labels: PseudoLabels | None = None) -> Iterator[Batch]:
        """The batches that our methods get in an epoch; with pseudo-labels these are half of the labelled rows."""
        return iterate_batches(
            replace(self.problem, pseudo_labels=pseudo_labels),
            BatchPlan(BATCH_SIZE, seed=self.seed, pseudo_batch_share=0.5),
            epoch=epoch,
            num_epochs=self.epochs,
            first_step=0,
            num_steps=self.epoch_steps,
            device=torch.device("cpu"),
        )


class PeerNetwork(nn.Module):
    """shiftcal's `mlp` backbone and head, in the form that skada takes."""

    def __init__(self, num_inputs: int, num_classes: int) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(num_inputs, WIDTH), nn.ReLU())
        self.head = nn.Linear(WIDTH, num_classes)

    def forward(self, inputs: Tensor, sample_weight: Tensor | None = None) -> Tensor:
        """Logits (N, C); skada passes weights that nothing here has use for."""
        del sample_weight
        logits: Tensor = self.head(self.body(inputs))
        return logits


def values_of(domain: LabelledDomain) -> Tensor:
    """All inputs (N, D)."""
    return domain.inputs.fetch(np.arange(len(domain), dtype=np.int64))


def load_setting(source_name: str, target_name: str, seed: int) -> Setting:
    """A task with inputs standardised by the source, so that no library has to."""
    source, target = load_pair(f"office-31-features/{source_name}", f"office-31-features/{target_name}")
    assert isinstance(target, LabelledDomain)
    own, other = values_of(source), values_of(target)
    mean, deviation = own.mean(dim=0), own.std(dim=0, correction=0).clamp_min(1e-6)
    labels = target.labels_among(source.classes)
    return Setting(
        replace(source, inputs=ArrayInputs((own - mean) / deviation)),
        replace(target, inputs=ArrayInputs((other - mean) / deviation), labels=labels, classes=source.classes),
        seed,
    )


def run_shiftcal(setting: Setting, method: str, options: Mapping[str, Any]) -> Tensor:
    """Target probabilities of one of our methods."""
    training = {
        "epochs": setting.epochs,
        "epoch_steps": setting.epoch_steps,
        "batch_size": BATCH_SIZE,
        "random_state": setting.seed,
        "validation_fraction": 0.0,
        "device": "cpu",
    }
    recipe = Recipe.from_names(method, backbone="mlp", method_options=options, training=training)
    return fit_model(setting.problem, recipe).predict(setting.target.inputs).logits.softmax(dim=-1)


def working_discriminator() -> nn.Module:
    """skada's own discriminator with a sigmoid at its end.

    In skada 0.6.0 it ends in a softmax over one unit, which is 1 for all inputs: the domain loss has no gradient, and
    DANN as it comes is source-only.
    """
    discriminator = peer("skada.deep.modules").DomainClassifier(WIDTH)
    discriminator.classifier[-1] = nn.Sigmoid()
    assert isinstance(discriminator, nn.Module)
    return discriminator


def run_skada(setting: Setting, method: str, options: Mapping[str, Any]) -> Tensor:
    """Target probabilities of one of skada's deep estimators."""
    deep, callbacks = peer("skada.deep"), peer("skorch.callbacks")
    torch.manual_seed(setting.seed)
    own: dict[str, Any] = {}
    if method != "source-only":
        own = {"layer_name": "body", "iterator_train__max_samples": "source"} | dict(options)
    if own.pop("discriminator", None) == "sigmoid":
        own["domain_classifier"] = working_discriminator()
    source, target = values_of(setting.source), values_of(setting.target)
    estimators = {"source-only": "SourceOnly", "deep-coral": "DeepCoral", "mcc": "MCC", "dann": "DANN"}
    schedule = callbacks.LRScheduler(policy=LambdaLR, lr_lambda=setting.new_schedule(), step_every="batch")
    network = getattr(deep, estimators[method])(
        PeerNetwork(source.shape[1], len(setting.source.classes)),
        **own,
        max_epochs=setting.epochs,
        batch_size=BATCH_SIZE,
        train_split=None,
        optimizer=AdamW,
        lr=ADAMW["lr"],
        optimizer__weight_decay=ADAMW["weight_decay"],
        optimizer__eps=ADAMW["eps"],
        callbacks=[("schedule", schedule)],
        verbose=0,
    )
    hidden = np.full(len(target), -1, dtype=np.int64)
    domains = np.repeat([1, -2], [len(source), len(target)])
    network.fit(torch.cat([source, target]).numpy(), np.concatenate([setting.source.labels, hidden]), domains)
    return torch.from_numpy(network.predict_proba(target.numpy(), sample_domain=np.full(len(target), -2)))


def run_pytorch_adapt(setting: Setting, method: str, options: Mapping[str, Any]) -> Tensor:
    """Target probabilities of one of pytorch-adapt's adapters."""
    peer("pytorch_adapt")
    import_torchvision()
    adapters, containers = peer("pytorch_adapt.adapters"), peer("pytorch_adapt.containers")
    torch.manual_seed(setting.seed)
    models, layers, num_classes = (
        peer("pytorch_adapt.models"),
        peer("pytorch_adapt.layers"),
        len(setting.source.classes),
    )
    network = PeerNetwork(setting.source.inputs.shape[0], num_classes)
    parts: dict[str, nn.Module] = {"G": network.body, "C": network.head}
    misc: dict[str, nn.Module] = {}
    if method == "mcd":
        parts["C"] = layers.MultipleModels(network.head, nn.Linear(WIDTH, num_classes))
    if method in ("dann", "vada"):
        parts["D"] = models.Discriminator(in_size=WIDTH, h=WIDTH)
    if method == "adda":
        parts["D"] = models.Discriminator(in_size=WIDTH, h=ADDA_WIDTH)
        # It asks torchmetrics for the accuracy of the discriminator as before torchmetrics 0.11.
        sufficient = peer("pytorch_adapt.layers.sufficient_accuracy")
        sufficient.accuracy = partial(peer("torchmetrics.functional").accuracy, task="binary")
    if method == "cdan":
        misc["feature_combiner"] = layers.RandomizedDotProduct([WIDTH, num_classes], CDAN_WIDTH)
        parts["D"] = models.Discriminator(in_size=CDAN_WIDTH, h=CDAN_WIDTH)

    def adapter_of(
        name: str, networks: Mapping[str, nn.Module], keys: list[str], rate: float = ADAMW["lr"], first_step: int = 0
    ) -> Any:
        schedule = setting.new_schedule()
        return getattr(adapters, name)(
            models=containers.Models(dict(networks)),
            optimizers=containers.Optimizers((AdamW, {**ADAMW, "lr": rate}), keys=keys),
            lr_schedulers=containers.LRSchedulers(
                (LambdaLR, {"lr_lambda": lambda step: schedule(first_step + step)}), keys=keys
            ),
            misc=containers.Misc(misc),
            hook_kwargs=dict(options),
        )

    in_stages = method == "adda"
    first = {name: parts[name] for name in ("G", "C")} if in_stages else parts
    adapter = adapter_of(PYTORCH_ADAPT["source-only" if in_stages else method], first, list(first))
    for epoch in range(setting.epochs):
        if in_stages and epoch == setting.epochs // 2:
            # The encoder of the target, T, starts as a copy of the source's.
            adapter = adapter_of(PYTORCH_ADAPT[method], parts, ["T", "D"], ADDA_RATE, epoch * setting.epoch_steps)
        for batch in setting.batches(epoch):
            drawn = {
                "src_imgs": batch.source_inputs,
                "src_labels": batch.source_labels,
                "src_domain": torch.zeros(BATCH_SIZE),
                "target_imgs": batch.target_inputs,
                "target_domain": torch.ones(BATCH_SIZE),
            }
            adapter.training_step(drawn)
            adapter.lr_schedulers.step("per_step")
    with torch.no_grad():
        body = adapter.models["T"] if in_stages else network.body
        logits = parts["C"](body(values_of(setting.target)))
    # Of its two heads pytorch-adapt adds the logits.
    found: Tensor = sum(logits) if method == "mcd" else logits
    return found.softmax(dim=-1)


def peer(name: str) -> Any:
    """A module of a peer library; where it is missing the script ends with the command that installs it."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        sys.exit(f"can't import {name} ({error}). In an environment of its own: {INSTALL}")


class Run(NamedTuple):
    """A method of a library, with the options that differ from its defaults."""

    method: str
    library: str
    options: Mapping[str, Any] = {}

    @property
    def option_text(self) -> str:
        """As options are written on the command line."""
        return ";".join(f"{name}={value}" for name, value in self.options.items())


# skada has no default for the layer that Deep CORAL aligns: "head" are the logits, "body" the features.
RUNS = (
    Run("source-only", "shiftcal"),
    Run("source-only", "skada"),
    Run("source-only", "pytorch-adapt"),
    Run("deep-coral", "shiftcal"),
    Run("deep-coral", "skada", {"layer_name": "head"}),
    Run("deep-coral", "shiftcal", {"layer": "features"}),
    Run("deep-coral", "skada", {"layer_name": "body"}),
    Run("mcc", "shiftcal"),
    Run("mcc", "shiftcal", {"temperature": 1.0}),
    Run("mcc", "skada"),
    Run("dann", "shiftcal"),
    # Both peers add the losses of the domains, of which ours is the mean.
    Run("dann", "shiftcal", {"domain_weight": 2.0}),
    Run("dann", "skada", {"discriminator": "sigmoid"}),
    Run("dann", "pytorch-adapt"),
    *(
        Run(method, library)
        for method in ("cdan", "adda", "mcd", "vada")
        for library in ("shiftcal", "pytorch-adapt")
    ),
)
LIBRARIES: dict[str, Callable[[Setting, str, Mapping[str, Any]], Tensor]] = {
    "shiftcal": run_shiftcal,
    "skada": run_skada,
    "pytorch-adapt": run_pytorch_adapt,
}


def measure(task: tuple[str, str], run: Run, seed: int) -> Iterator[dict[str, float]]:
    """One row."""
    setting = load_setting(*task, seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the peers use what torch and sklearn have since deprecated
        yield scores_of(LIBRARIES[run.library](setting, run.method, run.options), setting)


def scores_of(probabilities: Tensor, setting: Setting) -> dict[str, float]:
    """What is recorded of target probabilities (N, C)."""
    metrics = compute_metrics(probabilities.double(), setting.target.labels)
    return {"accuracy": metrics["accuracy"], "ece": metrics["expected_calibration_error"]}


def table(records: Rows) -> str:
    """Target accuracy by method and library: mean and spread over seeds of each task, and means over all."""
    packages = ("shiftcal", "skada", "skorch", "pytorch-adapt", "torch")
    seeds = len({row["seed"] for row in records})
    lines = [
        f"Office-31 features, target accuracy in %, mean ± standard deviation over {seeds} seeds; options are those",
        f"that differ from the library's defaults. {', '.join(f'{name} {version(name)}' for name in packages)}.",
        "",
        "skada's Deep CORAL has no default layer: head are the logits, body the features. Its DANN as it comes has a",
        "domain loss without gradient (softmax over one unit), hence the sigmoid. pytorch-adapt's discriminator is",
        f"its own three-layer network, {WIDTH} wide ({CDAN_WIDTH} behind the random product of CDAN, with entropy).",
        "",
        f"Made by `{command_of(records)}`.",
        "",
        *table_lines(RUNS, records),
    ]
    return "\n".join(lines) + "\n"


def table_lines(runs: Iterable[Run], records: Rows) -> Iterator[str]:
    """The table itself, a line for each run of a method that was measured."""
    names = ["->".join(task) for task in TASKS]
    yield f"| method | library | options | {' | '.join(names)} | mean | mean ECE |"
    yield "|---|---|---|" + "---:|" * (len(names) + 2)
    for run in (run for run in runs if run.method in {row["method"] for row in records}):
        rows = [r for r in records if (r["method"], r["library"], r["options"]) == (run[0], run[1], run.option_text)]
        by_task = [[100 * float(r["accuracy"]) for r in rows if r["task"] == name] for name in names]
        cells = [f"{np.mean(values):.1f} ± {np.std(values):.1f}" for values in by_task]
        cells.append(f"{100 * np.mean([float(r['accuracy']) for r in rows]):.1f}")
        cells.append(f"{np.mean([float(r['ece']) for r in rows]):.3f}")
        yield f"| {run.method} | {run.library} | {run.option_text} | {' | '.join(cells)} |"


def jobs(arguments: argparse.Namespace) -> Iterator[Job]:
    """Each method of each library on each task with each seed."""
    for name in ("skada.deep", "skorch", "pytorch_adapt"):
        peer(name)
    yield from jobs_of(RUNS, measure, arguments)


def jobs_of(
    runs: Iterable[Run],
    measure: Callable[[tuple[str, str], Run, int], Iterator[dict[str, float]]],
    arguments: argparse.Namespace,
) -> Iterator[Job]:
    """Of the methods that are asked for."""
    wanted = [run for run in runs if arguments.methods is None or run.method in arguments.methods.split(",")]
    for seed in range(arguments.seeds):
        for task in TASKS:
            for run in wanted:
                key = {"task": "->".join(task), "method": run.method, "seed": seed, "library": run.library}
                yield Job({**key, "options": run.option_text}, partial(measure, task, run, seed))


def command_of(records: Rows) -> str:
    """What makes these rows."""
    methods = list(dict.fromkeys(row["method"] for row in records))
    num_seeds = len({row["seed"] for row in records})
    some = "" if set(methods) == {run.method for run in RUNS} else f" --methods {','.join(methods)}"
    return f"{COMMAND}{some}{'' if num_seeds == NUM_SEEDS else f' --seeds {num_seeds}'} --out FILE.csv"


def declare(parser: argparse.ArgumentParser) -> None:
    """How often, and of what."""
    parser.add_argument("--seeds", type=int, default=NUM_SEEDS)
    parser.add_argument("--methods", metavar="NAME,..", help="of these alone; by default of all")


BENCHMARKS = {"peer_check": Benchmark(jobs, table, declare)}
