"""A few of the crash points of benchmarks/crash_points.py; `make crash` tries all."""

import sys

import pytest
from tests.processes import Programs

PROGRAM = """
import pytest
from benchmarks.crash_points import main
from tests.problems import estimate_quickly
estimate_quickly(pytest.MonkeyPatch())
sys.exit(main(["--scenarios", "fit", "save", "--kinds", "points", "--every", "61"]))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there is no fork")
def test_killed_runs_and_savings_end_as_if_nobody_had_killed_them(programs: Programs) -> None:
    process = programs.start(PROGRAM)
    programs.finish(process)
    assert programs.printed(process).count("Outcome(") == 2
