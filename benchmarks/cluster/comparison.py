"""A comparison on a Ray cluster of two nodes on this machine: speed against one process, and a node that is killed.

python benchmarks/cluster/comparison.py [--tasks SUITE,..] [--methods M,..] [--seeds N] [--out FILE]

Each worker has one CPU. Beside the time by the clock, which other programs on the machine disturb, the record has CPU
time: of the command, of the start of a worker, and of each model.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
import shutil
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from shiftcal.core.folder_lock import LOCK_FILE
from shiftcal.runs.comparison import ComparisonPlan, find_cells, parse_contenders, run_comparison
from shiftcal.runs.engines import Engine, LocalProcesses, Part, RayTasks, Result
from shiftcal.runs.predictions import load_predictions
from shiftcal.runs.tasks import parse_tasks

_HERE = Path(__file__).parent


class PartTime(NamedTuple):
    """CPU seconds of the process that did a part: before it, and for it."""

    process: int
    before: float
    seconds: float


@dataclass(frozen=True)
class Measured(Engine):
    """Another engine, and the CPU time of each part."""

    engine: Engine
    parts: list[PartTime] = field(default_factory=list)

    def results(self, function: Callable[[Part], Result], parts: Sequence[Part]) -> Iterator[Result]:
        """As the other engine gives them."""
        for time_of_part, result in self.engine.results(partial(_measured, function), parts):
            self.parts.append(time_of_part)
            yield result


def _measured(function: Callable[[Part], Result], part: Part) -> tuple[PartTime, Result]:
    before = time.process_time()
    result = function(part)
    return PartTime(os.getpid(), before, time.process_time() - before), result


def timed(plan: ComparisonPlan, out: Path, engine: Engine) -> dict[str, Any]:
    """Run a comparison; CPU seconds of each model, of the start of a worker, and of the command beside the models."""
    measured, started, before = Measured(engine), time.monotonic(), time.process_time()
    run_comparison(plan, out, engine=measured)
    command = time.process_time() - before
    own = [part.seconds for part in measured.parts if part.process == os.getpid()]
    of_workers: dict[int, list[PartTime]] = defaultdict(list)
    for part in measured.parts:
        if part.process != os.getpid():
            of_workers[part.process].append(part)
    return {
        "seconds": round(time.monotonic() - started, 1),
        "cpu_seconds_of_the_command": round(command - sum(own), 1),
        "cpu_seconds_of_models": [round(part.seconds, 2) for part in measured.parts],
        "cpu_seconds_to_start_a_worker": [round(min(p.before for p in parts), 1) for parts in of_workers.values()],
        "models_of_each_worker": [len(parts) for parts in of_workers.values()],
    }


def least_training(alone: dict[str, Any], two: dict[str, Any], speed_up: float) -> float:
    """CPU seconds of models from which on two workers are so many times as fast as one process without a cluster.

    One process takes its own time and that of all models, two workers that of the command, of a start and of half of
    the models.
    """
    fixed = two["cpu_seconds_of_the_command"] + max(two["cpu_seconds_to_start_a_worker"])
    least = (speed_up * fixed - alone["cpu_seconds_of_the_command"]) / (1 - speed_up / 2)
    return float(round(least, 0))


def new_cluster() -> tuple[Any, Any]:
    """A cluster of two nodes with one CPU each, and its second node."""
    utilities: Any = importlib.import_module("ray.cluster_utils")
    checks = {"health_check_initial_delay_ms": 0, "health_check_period_ms": 1000}
    head = {"num_cpus": 1, "include_dashboard": False, "_system_config": checks}
    cluster = utilities.Cluster(initialize_head=True, head_node_args=head)
    return cluster, cluster.add_node(num_cpus=1)


def kill_after(cluster: Any, node: Any, cells: Path, num_finished: int, said: dict[str, Any]) -> None:
    """Kill a node once so many cells are finished and two are under way."""
    while True:
        finished, begun = len(list(cells.rglob("metrics.json"))), len(list(cells.rglob(LOCK_FILE)))
        if finished >= num_finished and begun >= 2:
            cluster.remove_node(node, allow_graceful=False)
            said["finished_cells_when_the_node_was_killed"] = finished
            return
        time.sleep(0.05)


def same_results(out: Path, expected: Path) -> dict[str, Any]:
    """Whether the cells of two comparisons are the same, to the bit."""
    ours, theirs = find_cells(out), find_cells(expected)
    equal = [
        ours[key].read_metrics() == theirs[key].read_metrics()
        and np.array_equal(
            load_predictions(ours[key].target_predictions).probabilities,
            load_predictions(theirs[key].target_predictions).probabilities,
        )
        for key in theirs
        if key in ours
    ]
    return {"cells": len(ours), "cells_as_without_a_cluster": sum(equal), "expected": len(theirs)}


def main() -> None:
    """Three comparisons: without a cluster, with two workers, and with two of which one is killed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", default="office-31-features")
    parser.add_argument("--methods", default="source-only,source-only+temperature,drl")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--out", type=Path, default=_HERE / "comparison.json")
    arguments = parser.parse_args()
    settings = () if arguments.epochs is None else (f"epochs={arguments.epochs}",)
    plan = ComparisonPlan(
        tuple(parse_tasks(arguments.tasks)),
        parse_contenders(arguments.methods),
        num_seeds=arguments.seeds,
        settings=settings,
    )
    folder = Path(tempfile.mkdtemp(prefix="shiftcal-cluster-"))
    # Ray gives its workers a low priority by default; beside other programs they would hardly run.
    os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_worker_niceness": "5"}
    record: dict[str, Any] = {
        "command": "python benchmarks/cluster/comparison.py "
        f"--tasks {arguments.tasks} --methods {arguments.methods} --seeds {arguments.seeds}"
        + ("" if arguments.epochs is None else f" --epochs {arguments.epochs}"),
        "load_before": os.getloadavg()[0],
        "versions": {"python": platform.python_version(), **{name: version(name) for name in ("torch", "ray")}},
        "in_one_process": timed(plan, folder / "alone", LocalProcesses()),
    }
    for name in ("two_workers", "two_workers_one_killed"):
        cluster, last = new_cluster()
        said: dict[str, Any] = {}
        if "killed" in name:
            third = len(plan.tasks) * len(plan.contenders) * plan.num_seeds // 3
            killer = (cluster, last, folder / name / "cells", third, said)
            threading.Thread(target=kill_after, args=killer, daemon=True).start()
        try:
            record[name] = timed(plan, folder / name, RayTasks(cluster.address))
        finally:
            cluster.shutdown()
        record[name] |= said | same_results(folder / name, folder / "alone")
    alone, two = record["in_one_process"], record["two_workers"]
    record["cpu_seconds_of_models_from_which_two_workers_are_1.7_times_as_fast"] = least_training(alone, two, 1.7)
    record["load_after"] = os.getloadavg()[0]
    arguments.out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(record, indent=1))
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
