from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest

from shiftcal.calibrators import CALIBRATORS
from shiftcal.core.options import describe, option_names
from shiftcal.data.catalog.registry import list_datasets
from shiftcal.faces import listings
from shiftcal.methods import METHODS
from shiftcal.methods.networks.backbones import BACKBONES
from shiftcal.metrics import METRICS
from shiftcal.runs.tasks import SUITES
from shiftcal.training.options import TrainingOptions


def first_words(lines: Iterable[str]) -> list[str]:
    return [line.split()[0] for line in lines]


@pytest.mark.parametrize(
    ("listing", "names"),
    [
        (listings.methods, METHODS),
        (listings.calibrators, CALIBRATORS),
        (listings.datasets, [row.name for row in list_datasets()]),
        (listings.backbones, [*BACKBONES, "any", "NAME+WIDTH"]),
        (listings.metrics, METRICS),
        (listings.tasks, SUITES),
    ],
    ids=["methods", "calibrators", "datasets", "backbones", "metrics", "tasks"],
)
def test_every_entry_has_a_line_that_says_what_it_is(listing: Callable[[], list[str]], names: Iterable[str]) -> None:
    entries = [line for line in listing() if not line.startswith(" ")]
    assert first_words(entries) == list(names)
    for line in entries:
        assert len(line.split()) > 1, f"nothing is said of {line!r}"
        assert "\n" not in line


@pytest.mark.parametrize(
    ("listing", "classes"),
    [
        (listings.methods, list(METHODS.values())),
        (listings.calibrators, list(CALIBRATORS.values())),
        (listings.training, [TrainingOptions]),
    ],
    ids=["methods", "calibrators", "training"],
)
def test_every_option_has_a_line(listing: Callable[[], list[str]], classes: list[type]) -> None:
    lines = [line for line in listing() if line.startswith(" ")]
    assert first_words(lines) == [name for cls in classes for name in option_names(cls)]
    rows = [row for cls in classes for row in describe(cls)]
    for line, (_, kind, default, doc) in zip(lines, rows, strict=True):
        assert f"{doc} ({kind}; default {default})" in line


def test_every_task_of_a_suite_has_a_line() -> None:
    lines = [line.strip() for line in listings.tasks() if line.startswith(" ")]
    assert lines == [task.name for suite in SUITES.values() for task in suite]


def test_datasets_say_whether_they_are_here() -> None:
    lines = dict(zip(first_words(listings.datasets()), listings.datasets(), strict=True))
    for row in list_datasets():
        assert ("[here]" in lines[row.name]) is row.available
        assert ("[absent]" in lines[row.name]) is not row.available
