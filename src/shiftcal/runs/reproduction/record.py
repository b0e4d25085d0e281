"""Carries out a reproduction and writes it down: rows, figure, what they were made with, and a page."""

from __future__ import annotations

import hashlib
import json
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from pathlib import Path

import shiftcal
from shiftcal.core.csv_writing import write_csv
from shiftcal.core.errors import InvalidInputError
from shiftcal.core.files import written_whole
from shiftcal.runs.comparison import run_comparison
from shiftcal.runs.comparison.plan import cells_of
from shiftcal.runs.engines import Engine, LocalProcesses
from shiftcal.runs.reporting.figures.drawing import as_svg
from shiftcal.runs.reproduction.base import Reproduction, Row, Scale

_RECORDED_PACKAGES = ("shiftcal", "torch", "numpy", "scikit-learn", "scipy")


_IN_THIS_PROCESS = LocalProcesses()


def reproduce(
    reproduction: Reproduction,
    scale: Scale,
    out: Path,
    *,
    num_seeds: int | None = None,
    engine: Engine = _IN_THIS_PROCESS,
) -> Path:
    """Run what is missing and write NAME.csv, NAME.json, NAME.svg and NAME.md; for some also NAME-pictures.svg.

    Args:
        reproduction: which table or figure.
        scale: `cpu` for data at hand and two cores, `paper` for the published sizes.
        out: folder; trained models are kept below it and shared by all reproductions there.
        num_seeds: instead of those of the plan.
        engine: what trains, one model after the other or several at a time.

    Returns:
        The path of the page.

    Raises:
        InvalidInputError: the data do not suffice.
        TrainingInterrupted: a signal came; the same call goes on from there.
    """
    plan = reproduction.plan(scale)
    if num_seeds is not None:
        plan = replace(plan, num_seeds=num_seeds)
    # Apart, for a model that was trained without a learning curve has none.
    runs = out / ("runs-with-curves" if reproduction.learning_curves else "runs")
    run_comparison(plan, runs, engine=engine, learning_curves=reproduction.learning_curves)
    cells = cells_of(plan, runs)
    rows = reproduction.rows(cells)
    if not rows:
        raise InvalidInputError(f"{reproduction.name}: the data have too few rows of each class to work this out")
    names = list(dict.fromkeys(name for row in rows for name in row))
    lines = ([written_value(row.get(name, "")) for name in names] for row in rows)
    write_csv(out / f"{reproduction.name}.csv", names, lines)
    with written_whole(out / f"{reproduction.name}.svg") as temporary:
        temporary.write_bytes(as_svg(reproduction.draw, rows))
    if reproduction.shows_pictures:
        with written_whole(out / f"{reproduction.name}-pictures.svg") as temporary:
            temporary.write_bytes(as_svg(partial(reproduction.draw_pictures, cells=cells), rows))
    facts = {"scale": scale, "seeds": plan.num_seeds, **made_with(plan)}
    with written_whole(out / f"{reproduction.name}.json") as temporary:
        temporary.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
    page = out / f"{reproduction.name}.md"
    with written_whole(page) as temporary:
        temporary.write_text(_page(reproduction, scale, rows, facts), encoding="utf-8")
    return page


def made_with(configuration: object) -> dict[str, object]:
    """What is needed to make the same rows again: code, configuration and versions."""
    return {
        "commit": _commit(),
        "configuration": hashlib.sha256(repr(configuration).encode()).hexdigest()[:16],
        "versions": {package: version(package) for package in _RECORDED_PACKAGES},
    }


def _commit() -> str | None:
    """Of the checkout that the package lies in; None for an installed one."""
    folder = Path(shiftcal.__file__).parent
    command = ["git", "-C", str(folder), "describe", "--always", "--dirty", "--abbrev=12"]
    try:
        tracked = ["git", "-C", str(folder), "ls-files", "--error-unmatch", "__init__.py"]
        subprocess.run(tracked, capture_output=True, check=True)
        return subprocess.run(command, capture_output=True, check=True, text=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None


def written_value(value: object) -> str:
    """As it stands in a record."""
    return f"{value:.5g}" if isinstance(value, float) else str(value)


def _page(reproduction: Reproduction, scale: Scale, rows: Sequence[Row], facts: dict[str, object]) -> str:
    name = reproduction.name
    code = f"commit {facts['commit']}" if facts["commit"] else f"version {shiftcal.__version__}"
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

Made by `shiftcal reproduce {name} --scale {scale} --seeds {facts["seeds"]}`, {code}. Numbers:
[{name}.csv]({name}.csv); versions and configuration: [{name}.json]({name}.json).
"""
