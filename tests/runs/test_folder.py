from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest
import torch

from shiftcal.core.errors import DataUnavailableError, InvalidInputError, OutputError
from shiftcal.core.folder_lock import LOCK_FILE
from shiftcal.data.batches import ShiftProblem
from shiftcal.data.domains import LabelledDomain
from shiftcal.data.inputs import ArrayInputs
from shiftcal.runs import folder as run_folder
from shiftcal.runs.folder import RunFolder
from shiftcal.training.checkpoint import FORMAT_VERSION
from shiftcal.training.fit import fit_model
from shiftcal.training.fitted_model import FittedModel
from shiftcal.training.recipe import Recipe
from shiftcal.training.saved_model import load_model


@pytest.fixture(scope="module")
def model() -> FittedModel:
    labels = torch.arange(20) % 2
    inputs = ArrayInputs(labels.float().view(-1, 1) + torch.linspace(0, 0.1, 20).view(-1, 1))
    source = LabelledDomain("source", inputs, labels.numpy(), ("a", "b"))
    training = {"epochs": 2, "random_state": 3, "device": "cpu"}
    return fit_model(ShiftProblem(source, None), Recipe.from_names("source-only", training=training))


def test_a_run_is_started_by_its_checkpoint_and_finished_by_its_metrics(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    assert (folder.is_started, folder.is_finished) == (False, False)
    folder.write_config({"source": "a"})
    assert (folder.is_started, folder.is_finished) == (False, False)
    folder.checkpoint.touch()
    assert (folder.is_started, folder.is_finished) == (True, False)
    folder.write_metrics({"target": {"accuracy": 1.0}})
    assert (folder.is_started, folder.is_finished) == (True, True)


def test_every_file_stands_below_the_folder_at_a_place_of_its_own(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    paths = {
        folder.config: "config.yaml",
        folder.card: "card.json",
        folder.history: "history.jsonl",
        folder.learning_curve: "learning_curve.csv",
        folder.checkpoint: "checkpoint.pt",
        folder.source_predictions: "predictions/source.npz",
        folder.target_predictions: "predictions/target.npz",
        folder.pseudo_labels: "pseudo_labels.npz",
        folder.metrics: "metrics.json",
        folder.report: "report.html",
    }
    assert {path.relative_to(tmp_path).as_posix() for path in paths} == set(paths.values())


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    config = {"source": "größe/a", "target": None, "training": {"learning_rate": 1e-5, "epochs": None}}
    history = [{"epoch": 1.0, "task_loss": 1 / 3}, {"epoch": 2.0, "task_loss": 1e-9}]
    metrics: dict[str, dict[str, float | None]] = {"source": {"accuracy": 1 / 3, "aurc": None}, "target": {}}
    folder.write_config(config)
    folder.write_history(history)
    folder.write_metrics(metrics)
    assert folder.read_config() == config
    assert list(folder.read_config()) == list(config)
    assert folder.read_history() == history
    assert folder.read_metrics() == metrics
    assert "größe" in folder.config.read_text(encoding="utf-8")


def test_a_learning_curve_is_read_back_exactly(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    assert folder.read_learning_curve() == []
    rows = [{"epoch": 1, "accuracy": 1 / 3, "brier_score": 1e-17}, {"epoch": 2, "accuracy": 1.0, "brier_score": 0.1}]
    folder.write_learning_curve(rows)
    assert folder.read_learning_curve() == rows
    assert folder.learning_curve.read_text().startswith("epoch,accuracy,brier_score\n")


@pytest.mark.parametrize("text", ["epoch,accuracy\n1,high\n", "accuracy\n0.5\n", "epoch,accuracy\n1\n"])
def test_a_damaged_learning_curve_is_said(tmp_path: Path, text: str) -> None:
    folder = RunFolder(tmp_path)
    folder.learning_curve.write_text(text)
    with pytest.raises(InvalidInputError, match=r"learning_curve\.csv' is damaged"):
        folder.read_learning_curve()


def test_remains_of_a_run_without_checkpoint_are_in_nobodys_way(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    folder.write_config({})
    folder.write_history([])
    folder.write_learning_curve([{"epoch": 1}])
    (folder.path / LOCK_FILE).touch()
    (folder.path / ".shiftcal-0123.partial.pt").touch()
    folder.check_no_other_files()
    folder.remove_remains()
    assert sorted(path.name for path in folder.path.iterdir()) == [".shiftcal-0123.partial.pt", LOCK_FILE]


@pytest.mark.parametrize("name", ["config.yaml", "card.json", "notes.txt"])
def test_files_that_no_run_left_are_the_users(tmp_path: Path, name: str) -> None:
    (tmp_path / name).touch()
    with pytest.raises(OutputError, match=f"holds other files, such as '{name}'"):
        RunFolder(tmp_path).check_no_other_files()


def test_a_failure_without_checkpoint_leaves_nothing(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")

    def interrupted(*files: Path) -> None:
        with folder.nothing_left_on_failure():
            folder.write_config({})
            for path in files:
                path.touch()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert not folder.path.exists()
    with pytest.raises(KeyboardInterrupt):
        interrupted(folder.checkpoint)
    assert folder.checkpoint.exists()


@pytest.mark.parametrize("content", ["", "{", "[1]", "{}", '{"source": 1, "target": {}}', "\udcff", "[" * 10_000])
@pytest.mark.parametrize("what", ["config", "card", "history", "metrics", "findings"])
def test_damaged_files_are_named(tmp_path: Path, what: str, content: str) -> None:
    folder = RunFolder(tmp_path)
    path = folder.card if what == "findings" else getattr(folder, what)
    path.write_bytes(content.encode(errors="surrogateescape"))
    is_valid = (what, content) in {("config", "{}"), ("card", "{}"), ("history", ""), ("history", "{}")}
    if is_valid or ("target" in content and what in ("config", "card")):
        getattr(folder, f"read_{what}")()
        return
    with pytest.raises(InvalidInputError, match=f"{path.name}' is damaged"):
        getattr(folder, f"read_{what}")()


def test_a_learning_curve_is_a_result_of_its_model(tmp_path: Path) -> None:
    RunFolder(tmp_path).write_learning_curve([{"epoch": 1}])
    RunFolder(tmp_path).remove_results()
    assert list(tmp_path.iterdir()) == []


def test_an_empty_history_has_no_lines(tmp_path: Path) -> None:
    RunFolder(tmp_path).write_history([])
    assert RunFolder(tmp_path).read_history() == []


def test_the_card_holds_facts_versions_and_time(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.write_card({"seed": 5, "task": "größe"})
    card = folder.read_card()
    assert (card["seed"], card["task"], card["checkpoint_format"]) == (5, "größe", FORMAT_VERSION)
    assert card["versions"]["torch"] == version("torch")
    assert card["versions"]["shiftcal"] == version("shiftcal")
    written = datetime.fromisoformat(card["written"])
    assert abs((datetime.now(UTC) - written).total_seconds()) < 60


def test_packages_that_are_not_installed_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def without_timm(package: str) -> str:
        if package == "timm":
            raise PackageNotFoundError(package)
        return "1.0"

    monkeypatch.setattr(run_folder, "version", without_timm)
    RunFolder(tmp_path).write_card({})
    versions = RunFolder(tmp_path).read_card()["versions"]
    assert "timm" not in versions
    assert versions["torch"] == "1.0"


@pytest.mark.parametrize(
    ("program", "command"),
    [
        ("/usr/bin/shiftcal", "shiftcal fit --out run"),
        ("/src/shiftcal/__main__.py", "shiftcal fit --out run"),
        ("/home/me/notebook.py", None),
    ],
)
def test_the_card_holds_our_own_command_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str, command: str | None
) -> None:
    monkeypatch.setattr(sys, "argv", [program, "fit", "--out", "run"])
    RunFolder(tmp_path).write_card({})
    assert RunFolder(tmp_path).read_card()["command"] == command


def test_a_model_is_written_with_all_that_it_knows(tmp_path: Path, model: FittedModel) -> None:
    folder = RunFolder(tmp_path / "run")
    folder.write_model(model, {"source": "my-data"}, {"task": "a->b"})
    assert folder.read_config() == {"source": "my-data", **model.recipe.as_plain()}
    card = folder.read_card()
    assert (card["seed"], card["task"]) == (3, "a->b")
    assert card["training_seconds"] == pytest.approx(model.training_seconds, abs=0.1)
    assert folder.read_history() == list(model.history)
    loaded = load_model(folder.checkpoint)
    inputs = ArrayInputs(torch.tensor([[0.0], [1.0]]))
    assert torch.equal(loaded.predict(inputs).logits, model.predict(inputs).logits)
    assert not folder.is_finished


def test_a_model_needs_no_data_or_facts(tmp_path: Path, model: FittedModel) -> None:
    RunFolder(tmp_path).write_model(model)
    assert RunFolder(tmp_path).read_config() == model.recipe.as_plain()


@pytest.mark.parametrize(
    ("what", "name"),
    [("config", "config.yaml"), ("card", "card.json"), ("history", "history.jsonl"), ("metrics", "metrics.json")],
)
def test_other_folders_are_said_to_be_none_of_a_run(tmp_path: Path, what: str, name: str) -> None:
    with pytest.raises(DataUnavailableError, match=f"is not the folder of a run: it has no {name}"):
        getattr(RunFolder(tmp_path), f"read_{what}")()


def test_nothing_can_be_written_below_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match=r"can't write .*config\.yaml"):
        RunFolder(tmp_path / "file").write_config({})


def test_small_files_are_plain_json(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.write_history([{"epoch": 1}, {"epoch": 2}])
    assert [json.loads(line) for line in folder.history.read_text().splitlines()] == [{"epoch": 1}, {"epoch": 2}]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["history.jsonl"]
