"""Speed and memory, topic by topic: a record of each, and the tables of docs/performance.md.

python -m benchmarks.performance.run                       # all topics
python -m benchmarks.performance.run metrics --quick       # one, small

A topic is a module here with `measure(quick) -> list[Measurement]`, a line in `TOPICS`, and marks in the page.
"""

from __future__ import annotations

import argparse
from dataclasses import asdict

import torch
from benchmarks import docs_pages
from benchmarks.performance import estimates, loading, metrics, prediction, processes, training
from benchmarks.performance.measuring import Topic, write_record

TOPICS: dict[str, Topic] = {
    "training": training.measure,
    "prediction": prediction.measure,
    "metrics": metrics.measure,
    "estimates": estimates.measure,
    "loading": loading.measure,
    "processes": processes.measure,
}


def main() -> None:
    """Measure, print and, unless it was quick, record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("topics", nargs="*", metavar="TOPIC", help=f"of {', '.join(TOPICS)}; all without any")
    parser.add_argument("--quick", action="store_true", help="small sizes, and no record: does it run?")
    arguments = parser.parse_args()
    unknown = sorted(set(arguments.topics) - set(TOPICS))
    if unknown:
        parser.error(f"expected topics among {', '.join(TOPICS)}, got {unknown[0]}")
    torch.set_num_threads(1)
    for topic in arguments.topics or TOPICS:
        measurements = TOPICS[topic](arguments.quick)
        print(f"{topic}\n{docs_pages.time_table([asdict(line) for line in measurements])}\n", flush=True)
        if not arguments.quick:
            write_record(topic, measurements, quick=False)
    if not arguments.quick:
        docs_pages.main([])


if __name__ == "__main__":
    main()
