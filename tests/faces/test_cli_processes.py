"""The command line in processes of its own, where nothing is caught by pytest."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.processes import Programs

from shiftcal import AdaptiveClassifier, __version__
from shiftcal.metrics import METRICS

PROGRAM = """
from shiftcal.faces.cli import main
sys.exit(main(arguments))
"""


def in_a_process(*command: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


def test_command_and_module() -> None:
    script = Path(sys.executable).with_name("shiftcal")
    command = [str(script)] if script.exists() else [sys.executable, "-m", "shiftcal"]
    run = in_a_process(*command, "--version")
    assert (run.returncode, run.stdout, run.stderr) == (0, f"shiftcal {__version__}\n", "")


@pytest.mark.skipif(sys.platform == "win32", reason="there is no fork")
def test_results_alone_are_on_stdout(programs: Programs, tmp_path: Path) -> None:
    labels = np.arange(60) % 3
    inputs = (np.eye(3, 4)[labels] + np.random.default_rng(0).normal(size=(60, 4))).astype(np.float32)
    AdaptiveClassifier("source-only", epochs=1).fit(inputs, labels).save(tmp_path / "run")
    np.savez(tmp_path / "target.npz", x=inputs, y=labels)
    line = ["evaluate", str(tmp_path / "run"), "--data", str(tmp_path / "target.npz"), "--json"]
    run = programs.start(PROGRAM, arguments=line)
    programs.finish(run)
    assert programs.said(run) == ""
    assert json.loads(programs.printed(run)).keys() == METRICS.keys()


def test_a_reader_that_goes_away_is_no_error() -> None:
    line = f'"{sys.executable}" -m shiftcal completion bash | true'
    run = in_a_process("bash", "-c", f"set -o pipefail; {line}")
    assert run.stderr == ""


def test_help_waits_for_no_heavy_package() -> None:
    program = "import sys; from shiftcal.faces.cli import build_parser; build_parser(); print(*sys.modules)"
    run = in_a_process(sys.executable, "-c", program)
    assert not {"torch", "pandas", "sklearn", "scipy", "matplotlib"} & set(run.stdout.split())
