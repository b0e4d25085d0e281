"""One way to make and record results: jobs, each of which gives rows of one CSV file with the commit that made them.

The file is whole after each job, and the same command goes on from there. Beside it a JSON file says what it was made
with.
"""

from __future__ import annotations

import argparse
import csv
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shiftcal.core.csv_writing import write_csv
from shiftcal.core.files import written_whole
from shiftcal.core.progress import progress_bar
from shiftcal.runs.comparison import find_cells
from shiftcal.runs.comparison.plan import Folders
from shiftcal.runs.reproduction.record import made_with, written_value

Rows = list[dict[str, str]]


@dataclass(frozen=True)
class Job:
    """What is measured in one go."""

    key: Mapping[str, Any]
    """The first columns of its rows, which no other job has."""
    measure: Callable[[], Iterable[Mapping[str, Any]]]
    """The other columns of each of its rows."""


@dataclass(frozen=True)
class Benchmark:
    """What there is to measure, by the arguments of the command line, and what is said of it."""

    jobs: Callable[[argparse.Namespace], Iterable[Job]]
    table: Callable[[Rows], str] | None = None
    """Of all rows, as Markdown."""
    declare: Callable[[argparse.ArgumentParser], Any] = lambda _: None
    """Arguments of its own."""


def run(benchmark: Benchmark, arguments: argparse.Namespace) -> None:
    """Measure what is missing in the record, and write the table."""
    facts = made_with({name: value for name, value in vars(arguments).items() if name != "out"})
    rows = _rows_so_far(arguments.out, str(facts["commit"]))
    done = {tuple(row.items()) for row in rows}
    for job in progress_bar(benchmark.jobs(arguments), "measuring"):
        key = {name: written_value(value) for name, value in job.key.items()}
        if any(key.items() <= set(row) for row in done):
            continue
        for measured in job.measure():
            values = {name: written_value(value) for name, value in measured.items()}
            rows.append({**key, **values, "commit": str(facts["commit"])})
        names = list(rows[0])
        write_csv(arguments.out, names, ([row[name] for name in names] for row in rows))
    _write_text(arguments.out.with_suffix(".json"), json.dumps(facts, indent=1) + "\n")
    if benchmark.table is not None:
        text = benchmark.table(rows)
        _write_text(arguments.out.with_suffix(".md"), text)
        print(text)


def _rows_so_far(path: Path, commit: str) -> Rows:
    if not path.exists():
        return []
    rows = list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))
    others = {str(row.get("commit")) for row in rows} - {commit}
    if others:
        raise SystemExit(
            f"{path} has rows of {', '.join(others)}, and this is {commit}: choose another file, or move it"
        )
    return rows


def _write_text(path: Path, text: str) -> None:
    with written_whole(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def of_comparisons(measure: Callable[[Folders], Iterable[Job]], **more: Any) -> Benchmark:
    """A benchmark that is read from the cells of finished comparisons."""

    def declare(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("comparisons", type=Path, nargs="+", help="folders of `shiftcal compare --out`")

    def jobs(arguments: argparse.Namespace) -> Iterator[Job]:
        yield from measure({key: cell for path in arguments.comparisons for key, cell in find_cells(path).items()})

    return Benchmark(jobs, declare=declare, **more)
