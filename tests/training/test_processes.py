"""Real processes: two of torchrun against one, on one node and on two, and a kill."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from shiftcal.core.folder_lock import folder_lock
from shiftcal.runs.folder import RunFolder
from shiftcal.runs.predictions import load_predictions
from shiftcal.training.checkpoint import load_checkpoint

# Two processes of torch share two cores here.
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "error::UserWarning"}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return write_data(tmp_path)


def write_data(folder: Path) -> Path:
    generator = np.random.default_rng(0)
    labels = np.arange(200) % 4
    source = 2 * np.eye(4, 6)[labels] + generator.normal(size=(200, 6))
    path = folder / "data.npz"
    np.savez(path, s_x=source.astype(np.float32), s_y=labels, t_x=(source + 0.7).astype(np.float32), t_y=labels)
    return path


def fit_command(data: Path, out: Path, *further: str) -> list[str]:
    specs = ["--source", f"{data}:s", "--target", f"{data}:t", "--out", str(out)]
    settings = ["--set", "batch_size=32", "--set", "checkpoint_seconds=0"]
    return ["-m", "shiftcal", "fit", *specs, *settings, *further]


def run(command: list[str]) -> None:
    done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr


# A ratio, self-training, a calibrator, and a reference that is trained by the same processes.
EVERYTHING = ("--set", "epochs=5", "--learning-curve", "--method", "adapted")


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the data, and with a run of one process."""
    folder = tmp_path_factory.mktemp("alone")
    run([sys.executable, *fit_command(write_data(folder), folder / "one", *EVERYTHING)])
    return folder


def test_two_nodes_give_the_metrics_of_one_process(alone: Path) -> None:
    command = fit_command(alone / "data.npz", alone / "nodes", *EVERYTHING)
    meeting = f"--rdzv-backend=c10d --rdzv-id=test --rdzv-endpoint=127.0.0.1:{free_port()}".split()
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nnodes=2", "--nproc-per-node=1", *meeting]
    nodes = [
        subprocess.Popen([*torchrun, *command], env=ENVIRONMENT, stderr=subprocess.PIPE, text=True) for _ in range(2)
    ]
    for node in nodes:
        _, said = node.communicate(timeout=200)
        assert node.returncode == 0, said
    check_same_metrics(alone, "nodes")


def test_two_processes_with_parts_of_the_backbone_give_the_metrics_of_one(alone: Path) -> None:
    command = fit_command(alone / "data.npz", alone / "parts", *EVERYTHING, "--set", "strategy=fsdp")
    run([sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", *command])
    check_same_metrics(alone, "parts")
    whole, alike = (load_checkpoint(alone / name / "checkpoint.pt")["model"]["network"] for name in ("one", "parts"))
    assert {name: value.shape for name, value in alike.items()} == {n: value.shape for n, value in whole.items()}


def check_same_metrics(folder: Path, name: str) -> None:
    one, two = (json.loads((folder / each / "metrics.json").read_text()) for each in ("one", name))
    for domain in ("source", "target"):
        for metric, value in one[domain].items():
            # The threshold of prediction sets is one of 20 held-out scores: rounding may choose the next one.
            tolerance = 0.1 if "set_" in metric else 1e-4
            assert two[domain][metric] == pytest.approx(value, abs=tolerance), (domain, metric)
    curves = [RunFolder(folder / each).read_learning_curve() for each in ("one", name)]
    assert [row["epoch"] for row in curves[0]] == [1, 2, 3, 4, 5]
    assert curves[1] == [pytest.approx(row, abs=1e-4) for row in curves[0]]


@pytest.mark.parametrize(
    ("lost", "how"), [(1, signal.SIGSTOP), (0, signal.SIGKILL)], ids=["one hangs", "the first is killed"]
)
def test_a_lost_process_ends_the_others_and_the_run_can_be_resumed(
    data: Path, tmp_path: Path, lost: int, how: signal.Signals
) -> None:
    many = fit_command(data, tmp_path / "run", "--set", "epochs=400", "--set", "process_timeout=10")
    port = free_port()
    processes = [start_rank(rank, port, many) for rank in (0, 1)]
    try:
        wait_for_epoch(tmp_path / "run" / "history.jsonl", 2)
        processes[lost].send_signal(how)
        started = time.monotonic()
        _, said = processes[1 - lost].communicate(timeout=60)
        assert time.monotonic() - started < 30
        assert processes[1 - lost].returncode == 2
        assert "has ended, or has not answered for 10 s (process_timeout)" in said
        assert "Traceback" not in said
        assert said.endswith("go on with --resume.\n")
    finally:
        for process in processes:
            process.kill()
            process.communicate()
    done = len((tmp_path / "run" / "history.jsonl").read_text().splitlines())
    content = load_checkpoint(tmp_path / "run" / "checkpoint.pt")
    assert 1 <= content["training"]["epoch"] <= done
    with folder_lock(tmp_path / "run"):  # free, whoever was killed
        pass


def start_rank(rank: int, port: int, command: list[str]) -> subprocess.Popen[str]:
    """One of two processes as torchrun starts them, without what torchrun does about those that end."""
    place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "TORCHELASTIC_RUN_ID": "test"}
    numbers = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": 2, "LOCAL_WORLD_SIZE": 2, "GROUP_RANK": 0}
    environment = {**ENVIRONMENT, **place, **{name: str(number) for name, number in numbers.items()}}
    return subprocess.Popen(
        [sys.executable, *command], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def test_a_killed_run_resumes_to_the_same_result(data: Path, tmp_path: Path) -> None:
    """Ctrl-C is in tests/faces/test_cli.py."""
    many = ("--set", "epochs=40")
    run([sys.executable, *fit_command(data, tmp_path / "whole", *many)])
    killed = tmp_path / "killed"
    process = subprocess.Popen([sys.executable, *fit_command(data, killed, *many)], env=ENVIRONMENT)
    wait_for_epoch(killed / "history.jsonl", 3)
    process.send_signal(signal.SIGKILL)
    process.wait(timeout=60)
    assert not (killed / "metrics.json").exists()
    run([sys.executable, *fit_command(data, killed, *many, "--resume")])
    for name in ("source", "target"):
        expected, got = (
            load_predictions(tmp_path / run_name / "predictions" / f"{name}.npz") for run_name in ("whole", "killed")
        )
        assert np.array_equal(got.probabilities, expected.probabilities)
    epochs = [json.loads(line)["epoch"] for line in (killed / "history.jsonl").read_text().splitlines()]
    assert epochs == list(range(1, 41))


def wait_for_epoch(history: Path, epoch: int) -> None:
    deadline = time.monotonic() + 60
    while not history.exists() or len(history.read_text().splitlines()) < epoch:
        assert time.monotonic() < deadline, "training did not start"
        time.sleep(0.01)
