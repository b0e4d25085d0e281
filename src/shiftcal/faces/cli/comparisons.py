"""Commands on many runs: compare, reproduce, report; and list."""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path

from shiftcal.faces.cli.arguments import (
    declare_download,
    declare_json,
    declare_learning_curve,
    declare_settings,
    positive,
)


def declare_compare(parser: argparse.ArgumentParser) -> None:
    """Arguments of `compare`."""
    parser.add_argument(
        "--tasks", required=True, metavar="T,..", help="suites (`shiftcal list tasks`) or 'SOURCE->TARGET[@TEST]'"
    )
    parser.add_argument(
        "--methods",
        required=True,
        metavar="M,..",
        help="METHOD[key=value;..]+CALIBRATOR[key=value;..], or less of it",
    )
    parser.add_argument("--seeds", type=positive, default=3, help="runs of each method on each task")
    parser.add_argument(
        "--out", type=Path, required=True, metavar="DIR", help="folder; what is finished there is kept"
    )
    parser.add_argument("--backbone", default="auto", metavar="NAME", help="the same for every method")
    parser.add_argument("--image-size", type=positive, help="side that images are brought to")
    parser.add_argument("--jobs", type=positive, default=1, help="processes that train at the same time")
    declare_settings(parser, "every method")
    declare_learning_curve(parser)
    declare_download(parser)


def compare_command(arguments: argparse.Namespace) -> None:
    """`shiftcal compare`."""
    from shiftcal.runs.comparison import ComparisonPlan, parse_contenders, run_comparison
    from shiftcal.runs.reporting import as_text
    from shiftcal.runs.tasks import parse_tasks

    plan = ComparisonPlan(
        tasks=tuple(parse_tasks(arguments.tasks)),
        contenders=parse_contenders(arguments.methods),
        num_seeds=arguments.seeds,
        backbone=arguments.backbone,
        image_size=arguments.image_size,
        settings=tuple(arguments.set),
        download=arguments.download,
    )
    table = run_comparison(plan, arguments.out, jobs=arguments.jobs, learning_curves=arguments.learning_curve)
    print(as_text(table))
    print(f"report: {arguments.out / 'report.html'}")


def declare_reproduce(parser: argparse.ArgumentParser) -> None:
    """Arguments of `reproduce`."""
    parser.add_argument("name", help="a table or figure: shiftcal list reproductions")
    parser.add_argument(
        "--scale", choices=("cpu", "paper"), default="cpu", help="data at hand and two cores, or the published sizes"
    )
    parser.add_argument(
        "--out", type=Path, default=Path("reproductions"), metavar="DIR", help="folder; what is finished is kept"
    )
    parser.add_argument("--seeds", type=positive, help="instead of those of the plan")
    parser.add_argument("--jobs", type=positive, default=1, help="processes that train at the same time")


def reproduce_command(arguments: argparse.Namespace) -> None:
    """`shiftcal reproduce`."""
    from shiftcal.runs.reproduction import find_reproduction, reproduce

    found = find_reproduction(arguments.name)
    page = reproduce(found, arguments.scale, arguments.out, num_seeds=arguments.seeds, jobs=arguments.jobs)
    print(page.read_text(encoding="utf-8"))
    print(f"page: {page}")


def declare_report(parser: argparse.ArgumentParser) -> None:
    """Arguments of `report`."""
    parser.add_argument("folders", type=Path, nargs="+", metavar="RUN_OR_DIR", help="runs, or one comparison")
    parser.add_argument("--out", type=Path, metavar="FILE", help="default: report.html in the (first) folder")


def report_command(arguments: argparse.Namespace) -> None:
    """`shiftcal report`."""
    from shiftcal.core.files import check_not_an_input
    from shiftcal.runs.comparison import find_cells, write_tables
    from shiftcal.runs.experiment import read_contents
    from shiftcal.runs.folder import RunFolder
    from shiftcal.runs.reporting import write_report

    first = arguments.folders[0]
    path = arguments.out or first / "report.html"
    read = (file for folder in arguments.folders for file in folder.rglob("*") if file.name != "report.html")
    check_not_an_input(path, (file for file in read if file.is_file()))
    cells = find_cells(first) if len(arguments.folders) == 1 else {}
    if cells:
        write_tables(first, cells, report=path)
    else:
        runs = [read_contents(RunFolder(folder)) for folder in arguments.folders]
        if len({run.name for run in runs}) < len(runs):
            runs = [replace(run, name=str(folder)) for run, folder in zip(runs, arguments.folders, strict=True)]
        write_report(runs, path, title=" and ".join(str(folder) for folder in arguments.folders))
    print(f"report: {path}")


_LISTED = (
    "methods",
    "calibrators",
    "compositions",
    "estimators",
    "datasets",
    "backbones",
    "metrics",
    "tasks",
    "training",
    "reproductions",
)


def declare_list(parser: argparse.ArgumentParser) -> None:
    """Arguments of `list`."""
    parser.add_argument("what", nargs="?", choices=_LISTED, help="default: how many there are of each")
    parser.add_argument("--long", action="store_true", help="with all options, and the tasks of each suite")
    declare_json(parser)


def list_command(arguments: argparse.Namespace) -> None:
    """`shiftcal list`."""
    from shiftcal.faces import listings

    if arguments.what is None:
        counts = {what: len(getattr(listings, what)()) for what in _LISTED}
        lines = [f"{what:<16}{count}" for what, count in counts.items()]
        print(json.dumps(counts) if arguments.json else "\n".join(lines))
        return
    entries: list[listings.Entry] = getattr(listings, arguments.what)()
    if arguments.json:
        print(json.dumps([entry._asdict() for entry in entries], indent=1, ensure_ascii=False))
        return
    for entry in entries:
        print(f"{entry.name:<32} {entry.text}")
        # Options of training are all that there is to say of it.
        for detail in entry.details if arguments.long or arguments.what == "training" else ():
            print(f"    {detail}")
