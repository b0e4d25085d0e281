"""Engines: what they give back, what they do about errors, and about processes and machines that are lost."""

import importlib
import importlib.util
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from shiftcal.core.errors import InvalidInputError
from shiftcal.core.folder_lock import LOCK_FILE
from shiftcal.runs.comparison import ComparisonPlan, find_cells, parse_contenders, run_comparison
from shiftcal.runs.engines import Engine, LocalProcesses, RayTasks, find_engine
from shiftcal.runs.predictions import load_predictions
from shiftcal.runs.tasks import Task


@pytest.mark.parametrize(
    ("name", "at_a_time", "engine"),
    [
        ("local", None, LocalProcesses(1)),
        ("local", 2, LocalProcesses(2)),
        ("ray", None, RayTasks()),
        ("ray:10.0.0.1:6379", 4, RayTasks("10.0.0.1:6379", 4)),
    ],
)
def test_names(name: str, at_a_time: int | None, engine: Engine) -> None:
    assert find_engine(name, at_a_time) == engine


@pytest.mark.parametrize("name", ["", "rays", "ray:", "local:2", "dask"])
def test_unknown_names(name: str) -> None:
    with pytest.raises(InvalidInputError, match="'local', 'ray' or 'ray:ADDRESS'"):
        find_engine(name)


IN_TWO_PROCESSES = """
import os, sys, time
from pathlib import Path
from shiftcal.runs.engines import LocalProcesses

def work(folder):
    Path(folder, str(os.getpid())).touch()
    time.sleep(100)

if __name__ == "__main__":
    list(LocalProcesses(2).results(work, sys.argv[1:] * 3))
"""


def test_processes_end_with_the_one_that_they_work_for(tmp_path: Path) -> None:
    """They went on for the rest of their part, with no one to take it."""
    (tmp_path / "command.py").write_text(IN_TWO_PROCESSES)
    (tmp_path / "begun").mkdir()
    command = subprocess.Popen([sys.executable, tmp_path / "command.py", tmp_path / "begun"], cwd=tmp_path)
    wait_until(lambda: len(list((tmp_path / "begun").iterdir())) == 2)
    command.kill()
    command.wait()
    wait_until(lambda: not any(is_running(int(path.name)) for path in (tmp_path / "begun").iterdir()))


def wait_until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.timeout(600)  # starting a cluster takes most of the time
@pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="ray is not installed")
def test_a_comparison_on_two_nodes_of_which_one_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All cells are there, once, and are those of one process, to the bit."""
    labels = np.arange(60) % 3
    inputs = np.random.default_rng(0).normal(size=(60, 4)) + 2 * np.eye(3, 4)[labels]
    for name, shift in (("source", 0), ("near", 0.5), ("far", 2)):
        np.savez(tmp_path / f"{name}.npz", x=(inputs + shift).astype(np.float32), y=labels)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("shiftcal.runs.comparison.tables.write_report", lambda *_, **__: None)
    plan = ComparisonPlan(
        tasks=(Task("source.npz", "near.npz"), Task("source.npz", "far.npz")),
        contenders=parse_contenders("source-only,source-only+temperature"),
        num_seeds=1,
        settings=("epochs=60", "checkpoint_seconds=0"),
    )
    run_comparison(plan, Path("expected"))

    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    monkeypatch.setenv("RAY_worker_niceness", "5")  # less than Ray's own, or they hardly run beside other tests
    checks = {"health_check_initial_delay_ms": 0, "health_check_period_ms": 1000}
    node: dict[str, Any] = {"num_cpus": 1, "object_store_memory": 80 * 2**20}
    utilities: Any = importlib.import_module("ray.cluster_utils")
    cluster = utilities.Cluster(
        initialize_head=True, head_node_args={**node, "include_dashboard": False, "_system_config": checks}
    )
    try:
        lost = cluster.add_node(**node)
        cells = Path("by-ray/cells").absolute()
        killer = threading.Thread(target=kill_when_two_are_under_way, args=(cluster, lost, cells))
        killer.start()
        run_comparison(plan, Path("by-ray"), engine=RayTasks(cluster.address))
        killer.join(timeout=1)
        assert not killer.is_alive()
        with pytest.raises(InvalidInputError, match=r"^engine must be"):  # an error of a task, without Ray's words
            list(RayTasks(cluster.address).results(find_engine, ["ray", "rays"]))
    finally:
        cluster.shutdown()
    expected, found = find_cells(Path("expected")), find_cells(Path("by-ray"))
    assert found.keys() == expected.keys()
    for key, folder in found.items():
        assert folder.read_metrics() == expected[key].read_metrics()
        ours, theirs = (load_predictions(each.target_predictions) for each in (folder, expected[key]))
        assert np.array_equal(ours.probabilities, theirs.probabilities)
        assert {path.name for path in folder.path.iterdir()} == {path.name for path in expected[key].path.iterdir()}


def kill_when_two_are_under_way(cluster: Any, node: Any, cells: Path) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        begun = {path.parent for path in cells.rglob("checkpoint.pt")}
        if len(begun & {path.parent for path in cells.rglob(LOCK_FILE)}) == 2:
            cluster.remove_node(node, allow_graceful=False)
            return
        time.sleep(0.02)
