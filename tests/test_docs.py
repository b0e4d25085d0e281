import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_tables_of_the_pages_are_what_the_records_say() -> None:
    command = [sys.executable, "-m", "benchmarks.docs_pages", "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
