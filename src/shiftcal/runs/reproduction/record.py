"""Carries out a reproduction and writes it down: rows, figure, what they were made with, and a page."""

from __future__ import annotations

import csv
import hashlib
import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from pathlib import Path

import shiftcal
from shiftcal.core.csv_writing import write_csv
from shiftcal.core.errors import InvalidInputError
from shiftcal.core.files import written_whole
from shiftcal.core.provenance import code_commit
from shiftcal.runs.comparison import ComparisonPlan, run_comparison
from shiftcal.runs.comparison.plan import Folders, cells_of
from shiftcal.runs.engines import Engine, LocalProcesses
from shiftcal.runs.reporting.figures.drawing import as_svg
from shiftcal.runs.reproduction.base import Reproduction, Row, Scale, values_of

_RECORDED_PACKAGES = ("shiftcal", "torch", "numpy", "scikit-learn", "scipy")


_IN_THIS_PROCESS = LocalProcesses()


def reproduce(
    reproduction: Reproduction,
    scale: Scale,
    out: Path,
    *,
    num_seeds: int | None = None,
    first_seed: int = 0,
    engine: Engine = _IN_THIS_PROCESS,
) -> Path:
    """Run what is missing and write NAME.csv, NAME.json, NAME.svg and NAME.md; for some also NAME-pictures.svg.

    Args:
        reproduction: which table or figure.
        scale: `cpu` for data at hand and two cores, `paper` for the published sizes.
        out: folder; trained models are kept below it and shared by all reproductions there.
        num_seeds: instead of those of the plan.
        first_seed: above 0, to add to the record in the folder, whose rows of other seeds are kept.
        engine: what trains, one model after the other or several at a time.

    Returns:
        The path of the page.

    Raises:
        InvalidInputError: the data do not suffice, or the record that is added to is of another plan.
        TrainingInterrupted: a signal came; the same call goes on from there.
    """
    plan = replace(reproduction.plan(scale), first_seed=first_seed)
    if num_seeds is not None:
        plan = replace(plan, num_seeds=num_seeds)
    facts = made_with(replace(plan, num_seeds=1, first_seed=0))
    earlier = _rows_of_other_seeds(out, reproduction, plan, facts) if first_seed else []
    # Apart, for a model that was trained without a learning curve has none.
    runs = out / ("runs-with-curves" if reproduction.learning_curves else "runs")
    run_comparison(plan, runs, engine=engine, learning_curves=reproduction.learning_curves)
    cells = cells_of(plan, runs)
    own = reproduction.rows(cells)
    if not own:
        raise InvalidInputError(f"{reproduction.name}: the data have too few rows of each class to work this out")
    rows: list[Row] = [*earlier, *({**row, "commit": _code_of(row, cells, facts)} for row in own)]
    names = list(dict.fromkeys(name for row in rows for name in row))
    lines = ([written_value(row.get(name, "")) for name in names] for row in rows)
    write_csv(out / f"{reproduction.name}.csv", names, lines)
    with written_whole(out / f"{reproduction.name}.svg") as temporary:
        temporary.write_bytes(as_svg(reproduction.draw, rows))
    if reproduction.shows_pictures:
        with written_whole(out / f"{reproduction.name}-pictures.svg") as temporary:
            temporary.write_bytes(as_svg(partial(reproduction.draw_pictures, cells=cells), rows))
    facts = {"scale": scale, "seeds": len({row.get("seed") for row in rows}), **facts}
    with written_whole(out / f"{reproduction.name}.json") as temporary:
        temporary.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
    page = out / f"{reproduction.name}.md"
    with written_whole(page) as temporary:
        temporary.write_text(_page(reproduction, scale, rows, facts), encoding="utf-8")
    return page


def _rows_of_other_seeds(
    out: Path, reproduction: Reproduction, plan: ComparisonPlan, facts: dict[str, object]
) -> list[Row]:
    """What is recorded in the folder already, of the same plan but for its seeds."""
    record, known = out / f"{reproduction.name}.csv", out / f"{reproduction.name}.json"
    if not record.exists() or not known.exists():
        raise InvalidInputError(
            f"{str(out)!r} has no record of {reproduction.name} to add seeds {_spoken(plan.seeds)} to: "
            "start with seed 0, or name the folder that has it by --out"
        )
    if json.loads(known.read_text(encoding="utf-8"))["configuration"] != facts["configuration"]:
        raise InvalidInputError(
            f"the record of {reproduction.name} in {str(out)!r} is of another plan (scale, tasks, methods or "
            "settings), so nothing can be added to it: make it anew in another folder"
        )
    with record.open(encoding="utf-8", newline="") as file:
        rows = [
            {name: text if name == "commit" else _read_value(text) for name, text in row.items()}
            for row in csv.DictReader(file)
        ]
    return [row for row in rows if row["seed"] not in plan.seeds]


def _code_of(row: Row, cells: Folders, facts: dict[str, object]) -> str:
    """What made a row: of a model that was trained before, in the same folder, that may be an earlier commit."""
    cell = cells.get((str(row.get("task")), str(row.get("method")), int(row.get("seed", -1))))
    trained = None if cell is None else cell.read_card().get("commit")
    return str(trained or facts["commit"] or f"of version {shiftcal.__version__}")


def _spoken(seeds: range) -> str:
    return str(seeds[0]) if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]}"


def _read_value(text: str) -> str | int | float:
    """As it was before it was written down, but for digits that were left out."""
    for kind in (int, float):
        with suppress(ValueError):
            return kind(text)
    return text


def made_with(configuration: object) -> dict[str, object]:
    """What is needed to make the same rows again: code, configuration and versions."""
    return {
        "commit": code_commit(),
        "configuration": hashlib.sha256(repr(configuration).encode()).hexdigest()[:16],
        "versions": {package: version(package) for package in _RECORDED_PACKAGES},
    }


def written_value(value: object) -> str:
    """As it stands in a record."""
    return f"{value:.5g}" if isinstance(value, float) else str(value)


def _page(reproduction: Reproduction, scale: Scale, rows: Sequence[Row], facts: dict[str, object]) -> str:
    name = reproduction.name
    commits = ", ".join(map(str, values_of(rows, "commit")))
    pictures = ""
    if reproduction.shows_pictures:
        pictures = f"\nPictures: `{name}-pictures.svg`, written beside this page and not passed on with it.\n"
    return f"""# {reproduction.item}: {name}

{reproduction.question}

**Published.** {reproduction.published}

**Here.** {reproduction.finding(rows)}

![{name}]({name}.svg)
{pictures}
**What differs.** {reproduction.differs(scale)}

Made by `shiftcal reproduce {name} --scale {scale} --seeds {facts["seeds"]}`, commit {commits}. Numbers:
[{name}.csv]({name}.csv); versions and configuration: [{name}.json]({name}.json).
"""
