"""A few of the crash points of benchmarks/crash_points.py; `make crash` tries all."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "benchmarks" / "crash_points.py"


@pytest.mark.skipif(sys.platform == "win32", reason="there is no fork")
def test_killed_runs_and_savings_end_as_if_nobody_had_killed_them() -> None:
    command = [sys.executable, str(SCRIPT), "--scenarios", "fit", "save", "--kinds", "points", "--every", "61"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("Outcome(") == 2
