"""The benchmarks, each by one command: `python -m benchmarks NAME --out FILE.csv`.

    SHIFTCAL_DATA=... python -m benchmarks mixtures --out benchmarks/mixtures/results.csv

Rows have the commit that made them; FILE.json says what they were made with, FILE.md has the table. What is finished
is kept: the same command goes on.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from pathlib import Path

from benchmarks.frame import Benchmark, run

# Name and module: only the module of the one that is asked for is imported.
OWN = (
    *("adapted_mixtures", "author_check", "fallback_check", "large_files", "mixtures", "new_classes"),
    *("other_shifts", "peer_check", "ratio_meaning", "shift_calibrator", "streaming_metrics", "tables"),
)
OF_RUNS = ("oracle_temperature", "precision_at_coverage", "prediction_sets", "pseudo_label_rounds")
MODULES = {
    **{name: name for name in OWN},
    **dict.fromkeys(OF_RUNS, "of_runs"),
    **dict.fromkeys(("false_alarms", "estimate_drops"), "monitoring.false_alarms"),
    "few_labels": "monitoring.few_labels",
    "monitor_speed": "monitoring.speed",
    "simulated_streams": "monitoring.simulated",
    "streams": "monitoring.streams",
    "frozen_backbones": "backbones.frozen",
    "drst_profile": "performance.drst_profile",
    "loader": "backbones.loader",
    "witnesses": "accuracy_estimates.witnesses",
}


def main(words: list[str]) -> None:
    """Find the benchmark, then read its arguments."""
    name = words[0] if words else ""
    if name not in MODULES:
        raise SystemExit(f"{__doc__}\nNAME is one of: {', '.join(MODULES)}")
    module = importlib.import_module(f"benchmarks.{MODULES[name]}")
    benchmark: Benchmark = module.BENCHMARKS[name]
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(f"python -m benchmarks {name}", description=module.__doc__, formatter_class=form)
    parser.add_argument("--out", type=Path, required=True, metavar="FILE.csv")
    benchmark.declare(parser)
    run(benchmark, parser.parse_args(words[1:]))


if __name__ == "__main__":
    main(sys.argv[1:])
