"""Our methods beside the code that their authors published, on the tasks, network and budget of `peer_check`.

    SHIFTCAL_DATA=... python -m benchmarks author_check --authors FOLDER --out FILE.csv

FOLDER has a checkout of each repository of `author_steps.AUTHORS`, under its name.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import warnings
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import torch
from benchmarks.author_steps import AUTHORS, BY_AUTHORS, as_the_authors_ran
from benchmarks.frame import Benchmark, Job, Rows
from benchmarks.peer_check import NUM_SEEDS, Run, jobs_of, load_setting, run_shiftcal, scores_of, table_lines

COMMAND = "SHIFTCAL_DATA=... python -m benchmarks author_check --authors FOLDER"

RUNS = (
    Run("source-only", "shiftcal"),
    Run("source-only", "CRST", {"warmup_share": 1.0}),
    Run("adr", "shiftcal"),
    Run("adr", "adr_da"),
    Run("muda", "shiftcal"),
    Run("muda", "MUDA"),
    Run("muda", "MUDA", {"batch_norm": True}),
    Run("cbst", "shiftcal"),
    Run("cbst", "CRST"),
    Run("crst", "shiftcal"),
    Run("crst", "shiftcal", {"regularizer_weight": 0.1}),
    Run("crst", "CRST", {"mr_weight_kld": 0.1}),
    Run("crst", "shiftcal", {"regularizer": "lrent"}),
    Run("crst", "CRST", {"lr_weight_ent": 0.25}),
    Run("brer", "shiftcal"),
    Run("brer", "udacu"),
    Run("cpga", "shiftcal"),
    Run("cpga", "CPGA"),
)


def measure(folder: Path, task: tuple[str, str], run: Run, seed: int) -> Iterator[dict[str, float]]:
    """One row."""
    setting = load_setting(*task, seed)
    if run.library == "shiftcal":
        yield scores_of(run_shiftcal(setting, run.method, run.options), setting)
        return
    torch.manual_seed(seed)
    np.random.seed(seed)
    random.seed(seed)
    with warnings.catch_warnings(), as_the_authors_ran():
        warnings.simplefilter("ignore")
        probabilities = BY_AUTHORS[run.library](setting, folder, run.options)
    yield scores_of(probabilities, setting)


def jobs(arguments: argparse.Namespace) -> Iterator[Job]:
    """Each method of ours and of its authors on each task with each seed."""
    folder = arguments.authors.resolve()
    for name, (repository, commit) in AUTHORS.items():
        command = ["git", "-C", str(folder / name), "rev-parse", "HEAD"]
        found = subprocess.run(command, capture_output=True, text=True, check=False).stdout
        if not found.startswith(commit):
            sys.exit(f"{folder / name} must be a checkout of {repository} at {commit}, got {found.strip() or 'none'}")
    yield from jobs_of(RUNS, partial(measure, folder), arguments)


READ = """What was read in their code beside ours:

- adr: the three losses, their order and the mean over classes agree. Theirs takes a softmax of a softmax in each KL
  and holds one side of it fixed; ours does neither, balances classes and has one step of the backbone, theirs four.
- muda: the three losses, their order, K and the norm agree. Their weight is 1, ours 0.1; their networks have batch
  normalisation, ours normalises each row of features; their third gradient of cross-entropy is taken before the
  second step, ours after it. They start from a network trained on the source, which has no place in this budget:
  their rows here, below source-only, are not what their code can do.
- cbst: thresholds (of the rounded-down portion; ours rounds) and rows above them agree. CBST's own code (yzou2/CBST
  at 24439a5) is a script of MXNet and Python 2 for pictures, and can't be called; its thresholds are those of CRST.
- crst: cross-entropy and regularisers agree. Their weight of mrkld stands in the data set and again in the loss: 0.1
  acts as 0.01, on the mean over selected rows; ours is on the mean over all rows, of which half are selected. With
  lrent they take rows where sum_c (p_c / exp(-k_c))^(1/weight) is above 1, ours where the largest term is at least 1.
- cbst-avh: no code of its authors was found, so nothing is run or compared line by line.
- brer: loss, noise, thresholds and selection agree. Theirs draws anew in prediction, ours has fixed draws.
- cpga: its generator has 100 steps here, and its networks the width of ours. Centres, weights of rows,
  early-learning loss and neighbourhood entropy agree in form. Theirs has no source in adaptation, a fixed classifier,
  prototypes from a generator, a projection, and neighbours among all target rows."""


def table(records: Rows) -> str:
    """Target accuracy by method and code, and what was read."""
    seeds = len({row["seed"] for row in records})
    checkouts = ", ".join(f"{name}: {repository} at {commit}" for name, (repository, commit) in AUTHORS.items())
    lines = (
        f"Office-31 features, target accuracy in %, mean ± standard deviation over {seeds} seed(s); options are",
        f"those that differ from the defaults. torch {torch.__version__}; {checkouts}.",
        "Rounds, portions and warm-up of self-training are ours for both; CRST without selection is source-only.",
        "",
        f"Made by `{COMMAND}{'' if seeds == NUM_SEEDS else f' --seeds {seeds}'} --out FILE.csv`.",
        "",
        *table_lines(RUNS, records),
        "",
        READ,
        "",
    )
    return "\n".join(lines)


def declare(parser: argparse.ArgumentParser) -> None:
    """Where the checkouts are, how often, and of what."""
    parser.add_argument("--authors", type=Path, required=True, metavar="FOLDER", help="with the authors' checkouts")
    parser.add_argument("--seeds", type=int, default=NUM_SEEDS)
    parser.add_argument("--methods", metavar="NAME,..", help="of these alone; by default of all")


BENCHMARKS = {"author_check": Benchmark(jobs, table, declare)}
