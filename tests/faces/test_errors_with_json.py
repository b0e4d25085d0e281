"""Of every command with `--json`: an error is words on standard error and exit code 2, and no document."""

import importlib.util
import socket
from pathlib import Path

import numpy as np
import pytest

from shiftcal.core.errors import InvalidInputError
from shiftcal.faces.cli import COMMANDS, main
from shiftcal.runs.engines import RayTasks

WRONG = {
    "demo": ["--no-such-option"],
    "fit": ["--source", "nowhere", "--target", "x.npy", "--out", "run"],
    "run": ["nowhere.yaml", "--out", "run"],
    "predict": ["nowhere", "--data", "x.npy", "--out", "p.csv"],
    "calibrate": ["--source", "nowhere.csv", "--target", "nowhere.csv", "--out", "p.csv"],
    "estimate": ["nowhere", "--data", "x.npy"],
    "monitor": ["--reference", "nowhere.csv", "--batches", "nowhere"],
    "label": ["--reference", "nowhere.csv", "--target", "nowhere.csv", "--budget", "5", "--out", "p.csv"],
    "evaluate": ["nowhere", "--data", "x.npy"],
    "compare": ["--tasks", "nothing", "--methods", "source-only", "--out", "results"],
    "reproduce": ["nothing"],
    "report": ["nowhere"],
    "list": ["nothing"],
    "doctor": ["--no-such-option"],
    "cache": ["--no-such-option"],
}


def test_every_command_that_takes_json_is_here() -> None:
    assert WRONG.keys() == COMMANDS.keys() - {"completion"}


@pytest.mark.parametrize("name", WRONG)
def test_an_error_is_no_document(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", np.zeros((20, 2), np.float32))
    try:
        code: object = main([name, *WRONG[name], "--json"])
    except SystemExit as left:
        code = left.code
    told = capsys.readouterr()
    assert (code, told.out) == (2, "")
    assert "shiftcal: " in told.err
    assert "Traceback" not in told.err
    assert {path.name for path in tmp_path.iterdir()} == {"x.npy"}


@pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="ray is not installed")
def test_a_ray_cluster_that_does_not_answer_is_an_error_at_once() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{unused.getsockname()[1]}"
        with pytest.raises(InvalidInputError, match=rf"expected a Ray cluster at '{address}'.*refused"):
            list(RayTasks(address).results(len, ["a"]))
