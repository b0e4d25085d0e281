"""Kills runs at every point at which they change something on the disk, and resumes them.

python benchmarks/crash_points.py                             # all; writes benchmarks/crashes/results.csv
python benchmarks/crash_points.py --scenarios fit --every 15  # some points, no record

A point stands before each opening for writing, sync, move, removal, new folder and cut. At it the process gets a real
SIGKILL. So it does at random moments, and files that can't grow stand for a full disk, which the command has to name.
A failure counts as survived if the same command (with --resume where it has that) ends well, all results are those of
a run that nobody killed, to the bit, and the same files are there and no others. Processes are forked from one that
has loaded everything, so that a kill takes a second or two.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import io
import itertools
import json
import os
import random
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from shiftcal import AdaptiveClassifier
from shiftcal.core.csv_writing import write_csv
from shiftcal.core.progress import progress_bar
from shiftcal.core.provenance import code_commit
from shiftcal.faces.cli import main as shiftcal
from shiftcal.runs.reporting import page

RECORD = Path(__file__).parent / "crashes" / "results.csv"
# What changes something on the disk, of what Python tells of itself; `os.fsync` is watched apart.
_EVENTS = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate"}
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
_RANDOM_KILLS, _FULL_DISKS = 24, 15
_KINDS = ("points", "moments", "full-disk")

_DATA = ["--source", "data.npz:s", "--target", "data.npz:t"]
_QUICK = ["--set", "epochs=2", "--set", "batch_size=32"]
_FIT = ["fit", *_DATA, "--method", "adapted", "--learning-curve", "--set", "checkpoint_seconds=0", *_QUICK]
_COMPARE = [
    "compare",
    "--tasks",
    "data.npz:s->data.npz:t",
    "--methods",
    "source-only,source-only+temperature",
    *_QUICK,
]


@dataclass(frozen=True)
class Scenario:
    """What is killed, and what is said afterwards."""

    first: Callable[[], object]
    again: Callable[[], object]


@dataclass(frozen=True)
class Outcome:
    """Of all failures of one kind."""

    scenario: str
    failures: int
    resumed: int
    identical: int
    nothing_left_over: int


def command(*arguments: str) -> Callable[[], object]:
    """A command line that has to end well."""

    def run() -> None:
        code = shiftcal([*arguments])
        if code != 0:
            raise SystemExit(code)

    return run


MODEL = AdaptiveClassifier(epochs=1)
SCENARIOS = {
    "fit": Scenario(command(*_FIT, "--out", "run"), command(*_FIT, "--out", "run", "--resume")),
    "compare": Scenario(*[command(*_COMPARE, "--seeds", "1", "--out", "comparison")] * 2),
    "save": Scenario(lambda: MODEL.save("saved"), lambda: MODEL.save("saved", overwrite=True)),
    "predict": Scenario(*[command("predict", "../model", "--data", "data.npz:t", "--out", "table.csv")] * 2),
}


def count_points(act: Callable[[int], None]) -> None:
    """Call `act` with 0, 1, ... before each change on the disk below the working folder."""
    here, numbers, fsync = str(Path.cwd()), itertools.count(), os.fsync

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        path: Any = arguments[0] if arguments else None
        if event == "open":
            opened_for_writing = isinstance(path, (str, bytes, os.PathLike)) and arguments[2] & _WRITING
            if opened_for_writing and os.path.abspath(os.fsdecode(path)).startswith(here):  # noqa: PTH100
                act(next(numbers))
        elif event in _EVENTS and (isinstance(path, int) or os.path.abspath(os.fsdecode(path)).startswith(here)):  # noqa: PTH100
            act(next(numbers))

    def watched_fsync(descriptor: Any) -> None:
        act(next(numbers))
        fsync(descriptor)

    os.fsync = watched_fsync  # type: ignore[assignment]
    sys.addaudithook(watch)


class Ended(NamedTuple):
    """How a process ended: its exit code, below 0 the signal that killed it, and what it said."""

    code: int
    said: str


def in_child(work: Callable[[], object], *, kill_after: float | None = None) -> Ended:
    """Do the work in a process of its own."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.dup2(writing, 1)
            os.dup2(writing, 2)
            work()
            code = 0
        except SystemExit as exit_:
            code = exit_.code if isinstance(exit_.code, int) else 1
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    os.close(writing)
    if kill_after is not None:
        time.sleep(kill_after)
        os.kill(child, signal.SIGKILL)
    with os.fdopen(reading) as stream:
        said = stream.read()
    return Ended(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), said)


def killed_at(point: int, work: Callable[[], object]) -> Callable[[], object]:
    """The work with a real kill at a point."""

    def act(number: int) -> None:
        if number == point:
            os.kill(os.getpid(), signal.SIGKILL)

    def run() -> None:
        count_points(act)
        work()

    return run


def num_points(work: Callable[[], object]) -> int:
    """How many points there are, from a run that nobody kills."""

    def run() -> None:
        with Path("../points.txt").open("w") as stream:
            count_points(lambda _: print(file=stream))
            work()

    ended = in_child(run)
    assert ended.code == 0, ended.said
    return len(Path("../points.txt").read_text().splitlines())


def results_of(folder: Path) -> dict[str, Any]:
    """Every file below the folder, with what must be the same in all of them: time stamps and durations need not."""
    found: dict[str, Any] = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        found[name] = None
        if name == "data.npz" or path.is_dir():
            continue
        if path.suffix == ".npz":
            with np.load(path) as arrays:
                found[name] = {key: arrays[key].tobytes() for key in arrays}
        elif path.suffix == ".pt":
            model = torch.load(path, weights_only=True)["model"]
            found[name] = {key: value.numpy().tobytes() for key, value in model["network"].items()}
        elif path.name == "history.jsonl":
            records = [json.loads(line) for line in path.read_text().splitlines()]
            found[name] = [{key: value for key, value in record.items() if key != "seconds"} for record in records]
        elif path.name not in ("card.json", "report.html"):
            found[name] = path.read_bytes()
    return found


def work_in(folder: Path, data: Path) -> None:
    """Make a new folder with the data the working folder."""
    folder.mkdir()
    os.chdir(folder)
    Path("data.npz").write_bytes(data.read_bytes())


def limited_to(num_bytes: int, work: Callable[[], object]) -> Callable[[], object]:
    """The work where no file may grow beyond so many bytes, which is to a process what a full disk is."""

    def run() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (num_bytes, resource.RLIM_INFINITY))
        work()

    return run


@dataclass(frozen=True)
class Judge:
    """Starts a scenario that comes to grief, then carries it on, and compares what it leaves with the expected."""

    scenario: Scenario
    data: Path
    expected: Mapping[str, Any]

    def judge(self, label: str, number: int, fail: Callable[[], Ended]) -> tuple[bool, bool, bool]:
        """Whether the scenario could be carried on, gave identical results, and left nothing over."""
        work_in(self.data.parent / f"{label}-{number}", self.data)
        first = fail()
        # A random moment may come when all is done.
        failed_clearly = first.code in (0, -signal.SIGKILL) or (first.code == 2 and "can't write to" in first.said)
        again = in_child(self.scenario.again)
        found = results_of(Path.cwd())
        carried_on = failed_clearly and again.code == 0
        judgement = (carried_on, found == self.expected, found.keys() == self.expected.keys())
        if not all(judgement):
            names = found.keys() | self.expected.keys()
            different = sorted(name for name in names if found.get(name) != self.expected.get(name))
            print(f"{label} {number}: {different}\n{first.said[-500:]}\n{again.said[-500:]}", file=sys.stderr)
        return judgement


def summed_up(label: str, judge: Judge, failures: Sequence[Callable[[], Ended]]) -> Outcome:
    """All failures of one kind."""
    bar = progress_bar(failures, label, total=len(failures), unit="failure")
    judgements = [judge.judge(label, number, fail) for number, fail in enumerate(bar)]
    return Outcome(label, len(failures), *(sum(column) for column in zip(*judgements, strict=True)))


def try_scenario(name: str, place: Path, kinds: Sequence[str], every: int) -> Iterator[Outcome]:
    """Let a scenario fail in every way that is asked for."""
    scenario, data = SCENARIOS[name], place / "data.npz"
    work_in(place / f"{name}-whole", data)
    started = time.monotonic()
    points = num_points(scenario.first)
    duration, chance = time.monotonic() - started, random.Random(0)
    judge = Judge(scenario, data, results_of(Path.cwd()))
    if "points" in kinds:
        killed = [partial(in_child, killed_at(point, scenario.first)) for point in range(0, points, every)]
        yield summed_up(f"{name}, killed at every point", judge, killed)
    if "moments" in kinds and name == "fit":
        moments = [chance.uniform(0, duration) for _ in range(_RANDOM_KILLS)]
        killed = [partial(in_child, scenario.first, kill_after=moment) for moment in moments]
        yield summed_up(f"{name}, killed at random moments", judge, killed)
    if "full-disk" in kinds and name == "fit":
        largest = max(path.stat().st_size for path in Path.cwd().rglob("*") if path.is_file())
        sizes = np.geomspace(1, largest - 1, _FULL_DISKS).astype(int).tolist()
        limited = [partial(in_child, limited_to(size, scenario.first)) for size in sizes]
        yield summed_up(f"{name}, on a full disk", judge, limited)


def prepare(place: Path, scenarios: Sequence[str]) -> None:
    """The data, and a model that is already trained."""
    generator = np.random.default_rng(0)
    labels = np.arange(120) % 3
    inputs = (2 * np.eye(3, 4)[labels] + generator.normal(size=(120, 4))).astype(np.float32)
    np.savez(place / "data.npz", s_x=inputs, s_y=labels, t_x=inputs + 1, t_y=labels)
    MODEL.fit(inputs, labels, inputs + 1).save(place / "model")
    # Drawing would take most of the time; the file is written as ever.
    page.render_page = lambda runs, title, table, curves, detail: "drawn elsewhere"  # noqa: ARG005
    # Loads what commands load when they are called, which each process would else do for itself.
    work_in(place / "first", place / "data.npz")
    with contextlib.redirect_stdout(io.StringIO()):
        for name in scenarios:
            SCENARIOS[name].first()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the scenarios, print and perhaps record the outcomes; 1 if anything was not survived."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--every", type=int, default=1, help="kill at every so manieth point only, and keep no record"
    )
    parser.add_argument("--scenarios", nargs="+", choices=SCENARIOS, default=list(SCENARIOS))
    parser.add_argument("--kinds", nargs="+", choices=_KINDS, default=list(_KINDS))
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder).resolve()
        prepare(place, options.scenarios)
        outcomes = [
            outcome
            for name in options.scenarios
            for outcome in try_scenario(name, place, options.kinds, options.every)
        ]
        os.chdir("/")
    for outcome in outcomes:
        print(outcome)
    if options.every == 1:
        record(outcomes)
    survived = all(len(set(asdict(outcome).values()) - {outcome.scenario}) == 1 for outcome in outcomes)
    return 0 if survived else 1


def record(outcomes: Sequence[Outcome]) -> None:
    """Write the outcomes, which replace older ones of the same kind."""
    rows: dict[str, Mapping[str, Any]] = {}
    if RECORD.exists():
        rows = {row["scenario"]: row for row in csv.DictReader(RECORD.read_text(encoding="utf-8").splitlines())}
    commit = code_commit()
    rows |= {outcome.scenario: {**asdict(outcome), "commit": commit} for outcome in outcomes}
    RECORD.parent.mkdir(exist_ok=True)
    names = [field.name for field in fields(Outcome)] + ["commit"]
    write_csv(RECORD, names, ([row.get(name, "") for name in names] for row in rows.values()))


if __name__ == "__main__":
    sys.exit(main())
