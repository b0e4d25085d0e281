from __future__ import annotations

import json
from collections.abc import Callable, Iterable

import pytest

from shiftcal.calibrators import CALIBRATORS
from shiftcal.core.options import describe, option_names
from shiftcal.data.catalog.registry import list_datasets
from shiftcal.faces import doctor, listings
from shiftcal.faces.cli import COMMANDS, main
from shiftcal.faces.listings import Entry
from shiftcal.methods import METHODS
from shiftcal.methods.networks.backbones import BACKBONES
from shiftcal.metrics import METRICS
from shiftcal.runs.tasks import SUITES
from shiftcal.training.options import TrainingOptions


@pytest.mark.parametrize(
    ("listing", "names"),
    [
        (listings.methods, METHODS),
        (listings.calibrators, CALIBRATORS),
        (listings.datasets, [row.name for row in list_datasets()]),
        (
            listings.backbones,
            [
                *BACKBONES,
                "efficientnet-lite0, 1, 2",
                "lite0-last-blocks:pretrained",
                "any timm model",
                "onnx:FILE.onnx",
                "NAME+WIDTH",
            ],
        ),
        (listings.metrics, METRICS),
        (listings.tasks, SUITES),
    ],
    ids=["methods", "calibrators", "datasets", "backbones", "metrics", "tasks"],
)
def test_every_entry_says_what_it_is_in_a_line(listing: Callable[[], list[Entry]], names: Iterable[str]) -> None:
    entries = listing()
    assert [entry.name for entry in entries] == list(names)
    for entry in entries:
        assert entry.text
        assert "\n" not in entry.text


@pytest.mark.parametrize(
    ("listing", "classes"),
    [
        (listings.methods, list(METHODS.values())),
        (listings.calibrators, list(CALIBRATORS.values())),
        (listings.training, [TrainingOptions]),
    ],
    ids=["methods", "calibrators", "training"],
)
def test_every_option_has_a_line(listing: Callable[[], list[Entry]], classes: list[type]) -> None:
    lines = [line for entry in listing() for line in entry.details]
    assert [line.split()[0] for line in lines] == [name for cls in classes for name in option_names(cls)]
    rows = [row for cls in classes for row in describe(cls)]
    for line, (_, kind, default, doc) in zip(lines, rows, strict=True):
        assert f"{doc} ({kind}; default {default})" in line


def test_every_task_of_a_suite_has_a_line() -> None:
    lines = [line for entry in listings.tasks() for line in entry.details]
    assert lines == [task.name for suite in SUITES.values() for task in suite]


def test_datasets_say_whether_they_are_here() -> None:
    entries = {entry.name: entry.text for entry in listings.datasets()}
    for row in list_datasets():
        assert ("[here]" in entries[row.name]) is row.available
        assert ("[absent]" in entries[row.name]) is not row.available


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(arguments) == 0
    return capsys.readouterr().out


def test_a_list_is_short_unless_asked_to_be_long(capsys: pytest.CaptureFixture[str]) -> None:
    short, long = (printed(capsys, "list", "methods", *more) for more in ((), ("--long",)))
    assert len(short.splitlines()) == len(METHODS)
    assert len(long.splitlines()) > 5 * len(METHODS)
    found = json.loads(printed(capsys, "list", "methods", "--json"))
    assert [entry["name"] for entry in found] == list(METHODS)
    assert "methods" in printed(capsys, "list")


def test_the_doctor_tells_what_is_there_and_what_is_wrong(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "scikit-learn" in printed(capsys, "doctor")
    assert json.loads(printed(capsys, "doctor", "--json"))[0]["what"] == "shiftcal"
    monkeypatch.setattr(doctor, "_LEAST_DISK", 1e30)
    assert main(["doctor"]) == 2
    assert "free disk" in capsys.readouterr().err


def test_completion_knows_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    script = printed(capsys, "completion", "bash")
    assert all(name in script for name in COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_help_of_every_command_is_one_screen_with_an_example(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([name, "--help"])
    text = capsys.readouterr().out
    assert not COMMANDS[name].example or COMMANDS[name].example in text
