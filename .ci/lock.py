"""Hashes of all that `make setup` would install here and now, one line a package, for `pip install --require-hashes`.

python .ci/lock.py requirements.lock REQUIREMENT...

`make lock` names the requirements of `make setup`, and what builds this package itself.

Wheels differ by platform and registry (torch has some with and some without CUDA), and so do their hashes: the file
is of the machine and the registries that it was made on. What is installed later is then what was seen on that day.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any


def locked(report: dict[str, Any]) -> list[str]:
    """Lines of a requirements file, from what pip reports that it would install; not this package itself."""
    lines = []
    for entry in report["install"]:
        about, archive = entry["metadata"], entry["download_info"].get("archive_info")
        if archive is not None:
            if not archive.get("hashes"):
                raise SystemExit(f"{about['name']}: {entry['download_info']['url']} comes without a hash")
            lines.append(f"{about['name']}=={about['version']} --hash=sha256:{archive['hashes']['sha256']}")
    return sorted(lines, key=str.lower)


def main(out: Path, *wanted: str) -> None:
    """Ask pip, and write the file."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        ask = ["pip", "install", "--dry-run", "--ignore-installed", "--quiet", "--report", str(report)]
        subprocess.run([sys.executable, "-m", *ask, "--constraint", "constraints.txt", *wanted], check=True)
        out.write_text("\n".join(locked(json.loads(report.read_text()))) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
