"""Training in two gloo processes with a core each against one process with one core.

python benchmarks/cluster/processes.py [--out FILE]

Each is run with few and with many steps; the difference is what the further steps take, without imports, data and
what follows training. Beside the time by the clock, which other programs on the machine disturb, the record has CPU
time: of one process against the busier of two. It holds what the exchange of gradients costs, but not the waiting.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

_HERE = Path(__file__).parent
FEW_EPOCHS, MANY_EPOCHS = 1, 17
STEPS = 20
_SETTINGS = (f"epoch_steps={STEPS}", "batch_size=256", "checkpoint_seconds=1e6", "device=cpu")


def fit(num_processes: int, method: str, epochs: int, out: Path) -> dict[str, float]:
    """Train in so many processes; seconds by the clock, and CPU seconds of the busiest."""
    data = ["--source", "digits/mnist", "--target", "digits/uci", "--image-size", "32", "--out", str(out)]
    settings = [word for value in (*_SETTINGS, f"epochs={epochs}") for word in ("--set", value)]
    command = [sys.executable, "-m", "shiftcal", "fit", *data, "--method", method, "--no-fallback", *settings]
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    started, running = time.monotonic(), []
    for rank in range(num_processes):
        place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "TORCHELASTIC_RUN_ID": "benchmark"}
        numbers = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": num_processes, "LOCAL_WORLD_SIZE": num_processes}
        own = {"OMP_NUM_THREADS": 1, **(place | numbers if num_processes > 1 else {})}
        environment = {**os.environ, **{name: str(value) for name, value in own.items()}}
        running.append(subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL))
    cpu = []
    for process in running:
        _, status, usage = os.wait4(process.pid, 0)
        if status:
            raise SystemExit(f"{' '.join(command)} failed")
        cpu.append(usage.ru_utime + usage.ru_stime)
    return {"seconds": time.monotonic() - started, "cpu_seconds": max(cpu)}


def difference_of_metrics(one: Path, two: Path) -> float:
    """The largest of accuracy, ECE, Brier score and NLL, on both domains."""
    found = [json.loads((folder / "metrics.json").read_text()) for folder in (one, two)]
    names = ("accuracy", "expected_calibration_error", "brier_score", "negative_log_likelihood")
    pairs = ((found[0][domain][name], found[1][domain][name]) for domain in ("source", "target") for name in names)
    return max(abs(float(first) - float(second)) for first, second in pairs)


def main() -> None:
    """Each method in one process and in two."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--methods", default="drl")
    parser.add_argument("--out", type=Path, default=_HERE / "processes.json")
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="shiftcal-processes-"))
    record: dict[str, Any] = {
        "command": f"python benchmarks/cluster/processes.py --methods {arguments.methods}",
        "load_before": os.getloadavg()[0],
        "versions": {"python": platform.python_version(), "torch": version("torch")},
        "steps": (MANY_EPOCHS - FEW_EPOCHS) * STEPS,
    }
    for method in arguments.methods.split(","):
        found: dict[str, Any] = {}
        for number, name in ((1, "one_process"), (2, "two_processes")):
            few, many = (
                fit(number, method, each, folder / f"{method}-{number}-{each}") for each in (FEW_EPOCHS, MANY_EPOCHS)
            )
            found[name] = {unit: round(many[unit] - few[unit], 2) for unit in many}
        for epochs in (FEW_EPOCHS, MANY_EPOCHS):
            one_and_two = (folder / f"{method}-{number}-{epochs}" for number in (1, 2))
            name = f"largest_difference_of_metrics_after_{epochs * STEPS}_steps"
            found[name] = difference_of_metrics(*one_and_two)
        one, two = found["one_process"], found["two_processes"]
        found["speed_up_by_cpu_time"] = round(one["cpu_seconds"] / two["cpu_seconds"], 2)
        found["speed_up_by_the_clock"] = round(one["seconds"] / two["seconds"], 2)
        record[method] = found
    record["load_after"] = os.getloadavg()[0]
    arguments.out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(record, indent=1))
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
