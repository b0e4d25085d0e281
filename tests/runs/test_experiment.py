import json
import os
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml

from shiftcal.core.errors import CheckpointError, InvalidInputError, OutputError, TrainingInterrupted
from shiftcal.core.folder_lock import folder_lock
from shiftcal.data.domains import LabelledDomain, UnlabelledDomain
from shiftcal.runs.config import RunConfig, read_config
from shiftcal.runs.experiment import read_contents, report_run, run_experiment
from shiftcal.runs.folder import RunFolder
from shiftcal.runs.predictions import load_predictions
from shiftcal.runs.run_data import load_data, load_domain_for
from shiftcal.training.saved_model import load_model

pytestmark = pytest.mark.usefixtures("quick_estimate")

FILES = {
    "config.yaml",
    "fingerprints.json",
    "card.json",
    "history.jsonl",
    "checkpoint.pt",
    "metrics.json",
    "report.html",
    "predictions/source.npz",
    "predictions/target.npz",
}


@pytest.fixture(autouse=True)
def _data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    # Reports take most of the time of so small a run, and have tests of their own.
    monkeypatch.setattr("shiftcal.runs.experiment.report_run", lambda folder: folder.report.touch())
    monkeypatch.setattr("shiftcal.runs.reporting.figure_sections.as_data_uri", lambda draw, info: "data:,")
    generator = np.random.default_rng(0)
    labels = np.arange(60) % 3
    names = np.array(["cat", "dog", "owl"])
    inputs = (2 * np.eye(3, 4)[labels] + generator.normal(size=(60, 4))).astype(np.float32)
    np.savez("source.npz", x=inputs, y=names[labels])
    np.savez("target.npz", x=inputs + 1, y=names[labels])
    np.savez("permuted.npz", x=inputs + 1, y=names[generator.permutation(labels)])
    np.savez("held.npz", x=inputs[:9] + 2, y=names[labels[:9]])
    np.save("inputs.npy", inputs + 1)


def config(**changes: Any) -> RunConfig:
    plain: dict[str, Any] = {"source": "source.npz", "target": "target.npz", "training": {"epochs": 3}}
    return RunConfig(**plain | changes)


def files_of(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def assert_same_predictions(one: RunFolder, other: RunFolder) -> None:
    for name in ("source_predictions", "target_predictions"):
        first, second = load_predictions(getattr(one, name)), load_predictions(getattr(other, name))
        np.testing.assert_array_equal(first.probabilities, second.probabilities)
        np.testing.assert_array_equal(first.density_ratio, second.density_ratio)


class InterruptedAfterAnEpoch:
    """Stands in for `RunFolder.write_history` and sends a signal after the first epoch."""

    def __init__(self) -> None:
        self.original = RunFolder.write_history
        self.sent = False

    def __get__(self, folder: RunFolder, owner: type) -> Any:
        def write(history: Sequence[Any]) -> None:
            self.original(folder, history)
            if not self.sent:
                self.sent = True
                os.kill(os.getpid(), signal.SIGINT)

        return write


class TestRunFolder:
    def test_holds_everything_that_a_run_is(self) -> None:
        folder = run_experiment(config(calibrator="temperature"), Path("run"))
        assert files_of(folder.path) == FILES
        history = [json.loads(line) for line in folder.history.read_text().splitlines()]
        assert [record["epoch"] for record in history] == [1, 2, 3]
        assert {"task_loss", "seconds", "validation_accuracy", "validation_loss"} <= history[0].keys()
        card = json.loads(folder.card.read_text())
        assert card["seed"] == 0
        assert card["versions"]["torch"] == torch.__version__
        written = yaml.safe_load(folder.config.read_text())
        assert written["backbone"] == "mlp"
        assert written["training"]["epochs"] == 3
        assert written["method_options"].keys() >= {"learning_rate", "ema_decay"}
        metrics = json.loads(folder.metrics.read_text())
        assert metrics["source"]["held_out"] == 1
        assert metrics["source"]["num_samples"] == 6
        assert 0 <= metrics["target"]["accuracy"] <= 1
        report_run(folder)
        assert "<title>source-only + temperature: source.npz → target.npz</title>" in folder.report.read_text()

    def test_the_written_configuration_gives_the_same_numbers(self) -> None:
        first = run_experiment(config(training={"epochs": 2, "random_state": 5}), Path("first"))
        second = run_experiment(read_config(first.config), Path("second"))
        assert second.read_metrics() == first.read_metrics()
        assert yaml.safe_load(second.config.read_text()) == yaml.safe_load(first.config.read_text())
        assert_same_predictions(first, second)

    def test_contents_for_a_report_come_from_the_files(self) -> None:
        folder = run_experiment(config(method="source-only", calibrator="temperature"), Path("run"))
        contents = read_contents(folder)
        assert contents.name == "source-only + temperature"
        assert len(contents.history) == 3
        assert contents.target.labels is not None
        assert len(contents.target) == 60

    def test_an_unfinished_run_has_no_contents(self) -> None:
        folder = run_experiment(config(training={"epochs": 1}), Path("run"))
        folder.metrics.unlink()
        with pytest.raises(InvalidInputError, match="not finished"):
            read_contents(folder)

    def test_another_run_is_not_overwritten(self) -> None:
        Path("run").mkdir()
        (Path("run") / "notes.txt").write_text("mine")
        with pytest.raises(OutputError, match="holds other files"):
            run_experiment(config(), Path("run"))
        assert files_of(Path("run")) == {"notes.txt"}

    def test_a_run_that_fails_at_once_leaves_nothing(self) -> None:
        with pytest.raises(InvalidInputError, match="unknown backbone"):
            run_experiment(config(backbone="mpl"), Path("run"))
        assert not Path("run").exists()
        run_experiment(config(backbone="mlp", training={"epochs": 1}), Path("run"))


class TestTargetLabels:
    def test_never_reach_training(self) -> None:
        true = run_experiment(config(), Path("true"))
        permuted = run_experiment(config(target="permuted.npz"), Path("permuted"))
        none = run_experiment(config(target="inputs.npy"), Path("none"))
        assert_same_predictions(true, permuted)
        assert_same_predictions(true, none)
        assert permuted.read_metrics()["target"]["accuracy"] != true.read_metrics()["target"]["accuracy"]
        assert "accuracy" not in none.read_metrics()["target"]

    def test_are_not_in_the_problem(self) -> None:
        data = load_data(config(), download=False)
        assert isinstance(data.problem.target, UnlabelledDomain)
        assert isinstance(data.test, LabelledDomain)


class TestPseudoLabels:
    @pytest.fixture
    def run(self) -> RunFolder:
        return run_experiment(config(method="cbst"), Path("run"))

    def test_are_kept_and_judged_where_the_target_has_labels(self, run: RunFolder) -> None:
        assert files_of(run.path) == FILES | {"pseudo_labels.npz"}
        rounds = read_contents(run).pseudo_labels
        assert rounds is not None
        assert rounds.epochs.tolist() == [2, 3]
        truth = load_predictions(run.target_predictions).labels
        assert truth is not None
        assert rounds.true_precision is not None
        for labels, precision in zip(rounds.labels, rounds.true_precision, strict=True):
            chosen = labels >= 0
            assert precision == pytest.approx((labels == truth)[chosen].mean())
        history = run.read_history()
        assert [record.get("pseudo_share") for record in history[1:]] == rounds.share.tolist()

    def test_labels_of_the_target_change_nothing_but_the_judgement(self, run: RunFolder) -> None:
        true = read_contents(run).pseudo_labels
        permuted, none = (
            read_contents(
                run_experiment(config(method="cbst", target=target), Path(f"run of {target}"))
            ).pseudo_labels
            for target in ("permuted.npz", "inputs.npy")
        )
        assert true is not None
        assert permuted is not None
        assert none is not None
        assert none.true_precision is None
        assert permuted.true_precision is not None
        assert true.true_precision is not None
        assert not np.array_equal(permuted.true_precision, true.true_precision)
        np.testing.assert_array_equal(true.labels, permuted.labels)
        np.testing.assert_array_equal(true.labels, none.labels)

    def test_are_judged_by_the_target_whatever_the_test_data(self, run: RunFolder) -> None:
        other = run_experiment(config(method="cbst", test="held.npz"), Path("other"))
        expected, found = read_contents(run).pseudo_labels, read_contents(other).pseudo_labels
        assert expected is not None
        assert found is not None
        np.testing.assert_array_equal(found.true_precision, expected.true_precision)

    def test_survive_a_resumption_after_training(self, run: RunFolder) -> None:
        run.metrics.unlink()
        run.pseudo_labels.unlink()
        run_experiment(config(method="cbst"), run.path, resume=True)
        assert run.pseudo_labels.is_file()

    def test_are_shown_in_the_report(self, run: RunFolder) -> None:
        report_run(run)
        assert 'id="pseudo-labels"' in run.report.read_text()

    def test_there_are_none_for_other_methods(self) -> None:
        folder = run_experiment(config(method="source-only"), Path("run"))
        assert read_contents(folder).pseudo_labels is None


class TestTestData:
    def test_is_the_target_unless_named(self) -> None:
        data = load_data(config(test="held.npz"), download=False)
        assert len(data.test) == 9
        assert data.problem.target is not None
        assert len(data.problem.target) == 60

    def test_without_a_target_is_what_training_does_not_see(self) -> None:
        folder = run_experiment(config(target=None, training={"epochs": 1}), Path("run"))
        assert load_predictions(folder.target_predictions).ids.size == 6
        np.testing.assert_array_equal(load_predictions(folder.target_predictions).density_ratio, 1)

    def test_for_a_model_is_brought_to_its_format(self) -> None:
        pictures = np.random.default_rng(0).integers(0, 256, (12, 10, 10), dtype=np.uint8)
        np.savez("pictures.npz", x=pictures, y=np.arange(12) % 2)
        np.savez("large.npz", x=np.zeros((2, 20, 30, 3), np.uint8))
        chosen = config(source="pictures.npz", target="large.npz", image_size=8, training={"epochs": 1})
        model = load_model(run_experiment(chosen, Path("run")).checkpoint)
        assert model.input_shape == (3, 8, 8)
        assert load_domain_for(model, "large.npz").inputs.shape == (3, 8, 8)


class TestResuming:
    def test_ends_where_an_uninterrupted_run_does(self, monkeypatch: pytest.MonkeyPatch) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(RunFolder, "write_history", InterruptedAfterAnEpoch())
            with pytest.raises(TrainingInterrupted, match="stopped in epoch 2"):
                run_experiment(config(), Path("run"))
        folder = RunFolder(Path("run"))
        assert not folder.is_finished
        with pytest.raises(CheckpointError, match="not finished"):
            load_model(folder.checkpoint)
        with pytest.raises(OutputError, match="add --resume"):
            run_experiment(config(), folder.path)
        run_experiment(config(), folder.path, resume=True)
        assert len(folder.read_history()) == 3
        assert_same_predictions(folder, run_experiment(config(), Path("whole")))

    @pytest.mark.parametrize(
        "changes",
        [
            {"target": "permuted.npz"},
            {"training": {"epochs": 4}},
            {"method": "drl", "calibrator": "target-scaling"},
            {"backbone": "linear"},
        ],
    )
    def test_refuses_other_options_and_keeps_the_run(self, changes: dict[str, Any]) -> None:
        RunFolder(Path("run")).write_config({**config().data(), **config().recipe().as_plain()})
        RunFolder(Path("run")).checkpoint.touch()
        before = Path("run/config.yaml").read_text()
        with pytest.raises(OutputError, match=f"was made with another .*{next(iter(changes))[:6]}|another epochs: 3"):
            run_experiment(config(**changes), Path("run"), resume=True)
        assert Path("run/config.yaml").read_text() == before

    @pytest.mark.parametrize("what", ["source", "target", "held"])
    def test_refuses_data_of_other_content(self, what: str, monkeypatch: pytest.MonkeyPatch) -> None:
        chosen = config(test="held.npz")
        with monkeypatch.context() as patch:
            patch.setattr(RunFolder, "write_history", InterruptedAfterAnEpoch())
            with pytest.raises(TrainingInterrupted):
                run_experiment(chosen, Path("run"))
        with np.load(f"{what}.npz") as arrays:
            changed = {"x": arrays["x"].copy(), "y": arrays["y"]}
        whole = Path(f"{what}.npz").read_bytes()
        changed["x"][3, 1] += 1e-6
        np.savez(f"{what}.npz", **changed)
        name = "test" if what == "held" else what
        with pytest.raises(OutputError, match=rf"the {name} data '{what}\.npz' has other content"):
            run_experiment(chosen, Path("run"), resume=True)
        Path(f"{what}.npz").write_bytes(whole)
        os.utime(f"{what}.npz")
        folder = run_experiment(chosen, Path("run"), resume=True)
        np.savez(f"{what}.npz", **changed)
        with pytest.raises(OutputError, match="has other content"):  # of a finished run, too
            run_experiment(chosen, folder.path, resume=True)

    @pytest.mark.parametrize("content", [b"", b"words"])
    @pytest.mark.parametrize("name", ["checkpoint.pt", "predictions/target.npz", "card.json", "metrics.json"])
    def test_a_damaged_run_is_not_taken_for_a_finished_one(self, name: str, content: bytes) -> None:
        folder = run_experiment(config(training={"epochs": 1}), Path("run"))
        (folder.path / name).write_bytes(content)
        with pytest.raises((CheckpointError, InvalidInputError), match=f"{Path(name).name}'.*(damaged|no checksum)"):
            run_experiment(config(training={"epochs": 1}), Path("run"), resume=True)

    def test_a_changed_configuration_file_is_found(self) -> None:
        folder = run_experiment(config(method="source-only"), Path("run"))
        written = folder.read_config()
        folder.write_config({**written, "training": {**written["training"], "epochs": 7}})
        with pytest.raises(OutputError, match="is not the configuration of the model"):
            run_experiment(read_config(folder.config), Path("run"), resume=True)
        folder.write_config({**written, "fallback": False})
        with pytest.raises(OutputError, match=r"the configuration file 'run/config\.yaml' has other content"):
            run_experiment(read_config(folder.config), Path("run"), resume=True)

    def test_is_refused_while_another_process_is_at_it(self) -> None:
        folder = run_experiment(config(training={"epochs": 1}), Path("run"))
        with folder_lock(folder.path), pytest.raises(OutputError, match="is in use by process"):
            run_experiment(config(training={"epochs": 1}), Path("run"), resume=True)

    def test_allows_what_has_no_influence(self) -> None:
        folder = run_experiment(config(), Path("run"))
        written = folder.metrics.stat().st_mtime_ns
        run_experiment(config(training={"epochs": 3, "checkpoint_seconds": 1.0}), folder.path, resume=True)
        assert folder.metrics.stat().st_mtime_ns == written

    def test_of_a_trained_model_without_metrics_only_predicts(self, monkeypatch: pytest.MonkeyPatch) -> None:
        folder = run_experiment(config(calibrator="temperature"), Path("run"))
        metrics = folder.read_metrics()
        folder.metrics.unlink()
        monkeypatch.setattr("shiftcal.training.trainer.Trainer.run", None)
        run_experiment(config(calibrator="temperature"), folder.path, resume=True)
        assert folder.read_metrics() == metrics

    def test_of_nothing_is_a_new_run(self) -> None:
        assert run_experiment(config(training={"epochs": 1}), Path("run"), resume=True).is_finished
