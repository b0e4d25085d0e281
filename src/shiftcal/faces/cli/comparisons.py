"""Commands on many runs: compare, reproduce, report; and list."""

from __future__ import annotations

import argparse
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

from shiftcal.faces.cli.answers import Answer
from shiftcal.faces.cli.arguments import (
    declare_backbone,
    declare_download,
    declare_engine,
    declare_first_seed,
    declare_learning_curve,
    declare_settings,
    declare_table_columns,
    positive,
    table_columns,
)

if TYPE_CHECKING:
    from shiftcal.runs.reporting import ComparisonTable


def declare_compare(parser: argparse.ArgumentParser) -> None:
    """Arguments of `compare`."""
    parser.add_argument(
        "--tasks", required=True, metavar="T,..", help="suites (`shiftcal list tasks`) or 'SOURCE->TARGET[@TEST]'"
    )
    parser.add_argument(
        "--methods",
        required=True,
        metavar="M,..",
        help="METHOD[key=value;..]+CALIBRATOR[key=value;..], or less of it; keys are options, and backbone, "
        "freeze_backbone, image_size",
    )
    parser.add_argument("--seeds", type=positive, default=3, help="runs of each method on each task")
    declare_first_seed(parser, "go on where earlier seeds were run in another folder")
    parser.add_argument(
        "--out", type=Path, required=True, metavar="DIR", help="folder; what is finished there is kept"
    )
    declare_backbone(parser, "of every method without one of its own; see `shiftcal list backbones`")
    parser.add_argument("--image-size", type=positive, help="side that images are brought to")
    declare_table_columns(parser, of_source=True)
    declare_engine(parser, "trains")
    declare_settings(parser, "every method")
    declare_learning_curve(parser)
    declare_download(parser)


COMPARISON_JSON = {
    "table": "[{task, method, metrics: {NAME: {mean, spread, num_seeds, best}}}]; over all tasks first",
    "results": "file with every task, method and seed",
    "report": "the page",
}
"""Of `compare` and `demo`."""


def compare_command(arguments: argparse.Namespace) -> Answer:
    """`shiftcal compare`."""
    from shiftcal.runs.comparison import ComparisonPlan, parse_contenders, run_comparison
    from shiftcal.runs.engines import find_engine
    from shiftcal.runs.tasks import parse_tasks

    engine = find_engine(arguments.engine, arguments.jobs)
    plan = ComparisonPlan(
        tasks=tuple(parse_tasks(arguments.tasks)),
        contenders=parse_contenders(arguments.methods),
        num_seeds=arguments.seeds,
        first_seed=arguments.first_seed,
        backbone=arguments.backbone,
        freeze_backbone=arguments.freeze_backbone,
        image_size=arguments.image_size,
        table=table_columns(arguments),
        settings=tuple(arguments.set),
        download=arguments.download,
    )
    table = run_comparison(plan, arguments.out, engine=engine, learning_curves=arguments.learning_curve)
    return comparison_answer(table, arguments.out)


def comparison_answer(table: ComparisonTable, folder: Path) -> Answer:
    """Of a finished comparison."""
    from shiftcal.runs.reporting import as_text

    report = folder / "report.html"
    rows = [
        {
            "task": block.task,
            "method": method,
            "metrics": {
                metric.column: None if entry is None else asdict(entry)
                for metric, entry in zip(table.metrics, row, strict=True)
            },
        }
        for block in table.blocks
        for method, row in zip(table.methods, block.rows, strict=True)
    ]
    plain = {"table": rows, "results": str(folder / "results.csv"), "report": str(report)}
    return Answer(plain, f"{as_text(table)}\nreport: {report}")


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
    declare_first_seed(parser, "add to the record in the folder, whose rows of other seeds are kept")
    declare_engine(parser, "trains")


REPRODUCTION_JSON = {"page": "file of the page", "text": "what it says (Markdown)"}


def reproduce_command(arguments: argparse.Namespace) -> Answer:
    """`shiftcal reproduce`."""
    from shiftcal.runs.engines import find_engine
    from shiftcal.runs.reproduction import find_reproduction, reproduce

    found, engine = find_reproduction(arguments.name), find_engine(arguments.engine, arguments.jobs)
    page = reproduce(
        found,
        arguments.scale,
        arguments.out,
        num_seeds=arguments.seeds,
        first_seed=arguments.first_seed,
        engine=engine,
    )
    text = page.read_text(encoding="utf-8")
    return Answer({"page": str(page), "text": text}, f"{text}\npage: {page}")


def declare_report(parser: argparse.ArgumentParser) -> None:
    """Arguments of `report`."""
    parser.add_argument("folders", type=Path, nargs="+", metavar="RUN_OR_DIR", help="runs, or one comparison")
    parser.add_argument("--out", type=Path, metavar="FILE", help="default: report.html in the (first) folder")


REPORT_JSON = {"report": "the page"}


def report_command(arguments: argparse.Namespace) -> Answer:
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
    return Answer({"report": str(path)}, f"report: {path}")


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


LIST_JSON = {
    "[].name": "of something that can be chosen",
    "[].text": "what it is",
    "[].details": "its options or parts, a line each",
    "KIND": "without a kind to list: how many there are of each, {KIND: number}",
}


def list_command(arguments: argparse.Namespace) -> Answer:
    """`shiftcal list`."""
    from shiftcal.faces import listings

    if arguments.what is None:
        counts = {what: len(getattr(listings, what)()) for what in _LISTED}
        return Answer(counts, "\n".join(f"{what:<16}{count}" for what, count in counts.items()))
    entries: list[listings.Entry] = getattr(listings, arguments.what)()
    lines = []
    for entry in entries:
        lines.append(f"{entry.name:<32} {entry.text}")
        # Options of training are all that there is to say of it.
        if arguments.long or arguments.what == "training":
            lines.extend(f"    {detail}" for detail in entry.details)
    return Answer([entry._asdict() for entry in entries], "\n".join(lines))
