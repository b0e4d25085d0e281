"""Tables scored by a saved run: file after file, on a Ray cluster of two nodes on this machine, and by Ray Data.

python benchmarks/cluster/scoring.py [--files N] [--rows N] [--out FILE]
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
import shutil
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from shiftcal import AdaptiveClassifier, arrow_scorer
from shiftcal.faces.cli import main as shiftcal

_HERE = Path(__file__).parent


def write_tables(folder: Path, num_files: int, num_rows: int) -> list[Path]:
    """Files of 16 columns of numbers, and of one that numbers the rows."""
    paths = []
    for number in range(num_files):
        generator = np.random.default_rng(number)
        values = generator.normal(size=(num_rows, 16)).astype(np.float32)
        table = pd.DataFrame(values, columns=[f"x{column}" for column in range(16)])
        paths.append(folder / f"part-{number:03}.parquet")
        table.assign(row=np.arange(num_rows) + number * num_rows).to_parquet(paths[-1], index=False)
    return paths


def write_run(folder: Path) -> Path:
    """A model of such tables."""
    generator = np.random.default_rng(0)
    values = generator.normal(size=(500, 16)).astype(np.float32)
    table = pd.DataFrame(values, columns=[f"x{column}" for column in range(16)])
    labels = np.where(values[:, :4].sum(axis=1) > 0, "yes", "no")
    AdaptiveClassifier(epochs=5).fit(table, labels, table + 0.3).save(folder)
    return folder


def read(folder: Path) -> pd.DataFrame:
    """All results in one table, by row."""
    table = pd.concat([pd.read_parquet(path) for path in sorted(folder.glob("*.parquet"))])
    return table.sort_values("row", ignore_index=True)


def main() -> None:
    """The same rows in three ways."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=8)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--out", type=Path, default=_HERE / "scoring.json")
    arguments = parser.parse_args()
    # Ray gives its workers a low priority by default; beside other programs they would hardly run.
    os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_worker_niceness": "5"}
    folder = Path(tempfile.mkdtemp(prefix="shiftcal-scoring-"))
    (folder / "data").mkdir()
    paths, run = write_tables(folder / "data", arguments.files, arguments.rows), write_run(folder / "run")
    seconds: dict[str, float] = {}

    def score(name: str, *further: str) -> None:
        started = time.monotonic()
        command = ["predict", str(run), "--files", *map(str, paths), "--format", "parquet", *further]
        assert shiftcal([*command, "--out", str(folder / name)]) == 0
        seconds[name] = round(time.monotonic() - started, 1)

    score("in_one_process")
    utilities: Any = importlib.import_module("ray.cluster_utils")
    cluster = utilities.Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    cluster.add_node(num_cpus=1)
    try:
        score("by_ray_tasks", "--engine", f"ray:{cluster.address}")
        score_by_ray_data(cluster.address, folder, run, seconds)
    finally:
        cluster.shutdown()
    expected = read(folder / "in_one_process")
    record: dict[str, Any] = {
        "command": f"python benchmarks/cluster/scoring.py --files {arguments.files} --rows {arguments.rows}",
        "versions": {"python": platform.python_version(), **{name: version(name) for name in ("torch", "ray")}},
        "load": os.getloadavg()[0],
        "seconds": seconds,
        "rows": len(expected),
        "largest_difference": {name: difference(read(folder / name), expected) for name in seconds},
    }
    arguments.out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(record, indent=1))
    shutil.rmtree(folder)


def score_by_ray_data(address: str, folder: Path, run: Path, seconds: dict[str, float]) -> None:
    """As docs/cluster.md shows it."""
    ray: Any = importlib.import_module("ray")
    importlib.import_module("ray.data")
    started = time.monotonic()
    ray.init(address=address, log_to_driver=False)
    rows = ray.data.read_parquet(str(folder / "data"))
    rows.map_batches(arrow_scorer(run), batch_format="pyarrow").write_parquet(str(folder / "by_ray_data"))
    ray.shutdown()
    seconds["by_ray_data"] = round(time.monotonic() - started, 1)


def difference(table: pd.DataFrame, expected: pd.DataFrame) -> float:
    """Of probabilities, row by row; all rows must be there, once."""
    assert table["row"].tolist() == expected["row"].tolist()
    return float((table["probability_yes"] - expected["probability_yes"]).abs().max())


if __name__ == "__main__":
    main()
