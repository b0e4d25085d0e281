import csv
import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from shiftcal.core.errors import InvalidInputError, TrainingInterrupted
from shiftcal.core.folder_lock import LOCK_FILE
from shiftcal.runs.config import RunConfig
from shiftcal.runs.experiment import read_contents, report_run, run_experiment
from shiftcal.runs.folder import RunFolder
from shiftcal.runs.learning_curve import CURVE_METRICS, LearningCurve
from shiftcal.runs.predictions import load_predictions
from shiftcal.training.checkpoint import load_checkpoint
from shiftcal.training.saved_model import load_model

pytestmark = pytest.mark.usefixtures("quick_estimate")


@pytest.fixture(autouse=True)
def _data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("shiftcal.runs.experiment.report_run", lambda folder: folder.report.touch())
    monkeypatch.setattr("shiftcal.runs.reporting.figure_sections.as_data_uri", lambda draw, info: "data:,")
    generator = np.random.default_rng(0)
    labels = np.arange(90) % 3
    inputs = (2 * np.eye(3, 4)[labels] + generator.normal(size=(90, 4))).astype(np.float32)
    names = np.array(["cat", "dog", "owl"])[labels]
    np.savez("source.npz", x=inputs, y=names)
    np.savez("target.npz", x=inputs + 1, y=names)
    # Classes in another order: what is compared is names, not numbers.
    np.savez("reversed.npz", x=inputs[::-1] + 1, y=names[::-1])
    np.save("inputs.npy", inputs + 1)


def run(out: str, *, learning_curve: bool = True, resume: bool = False, **changes: Any) -> RunFolder:
    plain: dict[str, Any] = {
        "source": "source.npz",
        "target": "target.npz",
        "method": "source-only",
        "training": {"epochs": 4, "batch_size": 16},
    }
    return run_experiment(RunConfig(**plain | changes), Path(out), resume=resume, learning_curve=learning_curve)


def epochs_of(folder: RunFolder) -> list[float]:
    return [row["epoch"] for row in folder.read_learning_curve()]


def by_hand(probabilities: Any, labels: Any) -> dict[str, float]:
    """The metrics of a curve, straight from their definitions."""
    rows = np.arange(len(labels))
    right = probabilities.argmax(axis=1) == labels
    confidence = probabilities.max(axis=1)
    bins = np.ceil(15 * confidence).astype(int)
    gaps = [abs(right[bins == b].mean() - confidence[bins == b].mean()) * (bins == b).mean() for b in np.unique(bins)]
    return {
        "accuracy": right.mean(),
        "expected_calibration_error": sum(gaps),
        "brier_score": np.square(probabilities - np.eye(3)[labels]).sum(axis=1).mean(),
        "negative_log_likelihood": -np.log(probabilities[rows, labels]).mean(),
    }


class TestCurve:
    def test_last_row_is_what_the_trained_model_is_worth(self) -> None:
        folder = run("run", test="reversed.npz")
        with folder.learning_curve.open(encoding="utf-8") as stream:
            rows = list(csv.DictReader(stream))
        assert [row["epoch"] for row in rows] == ["1", "2", "3", "4"]
        assert list(rows[0]) == ["epoch", *CURVE_METRICS, *(f"source_{name}" for name in CURVE_METRICS)]
        for prefix, path in (("", folder.target_predictions), ("source_", folder.source_predictions)):
            predictions = load_predictions(path)
            for name, value in by_hand(predictions.probabilities, predictions.labels).items():
                assert float(rows[-1][prefix + name]) == pytest.approx(value, abs=1e-9), prefix + name
        assert rows[0]["brier_score"] != rows[-1]["brier_score"]

    def test_is_of_the_network_without_its_calibrator(self) -> None:
        plain, calibrated = run("plain"), run("calibrated", calibrator="temperature")
        assert calibrated.read_learning_curve() == plain.read_learning_curve()
        assert calibrated.read_metrics()["target"] != plain.read_metrics()["target"]

    @pytest.mark.parametrize("method", ["drl", "cbst", "bayes-by-backprop"])
    def test_the_run_is_the_same_without(self, method: str) -> None:
        with_curve, without = run("with", method=method), run("without", method=method, learning_curve=False)
        assert not without.learning_curve.exists()
        assert with_curve.read_metrics() == without.read_metrics()
        assert with_curve.read_config() == without.read_config()
        for name in ("source_predictions", "target_predictions"):
            one, other = (load_predictions(getattr(folder, name)) for folder in (with_curve, without))
            np.testing.assert_array_equal(one.probabilities, other.probabilities)
            np.testing.assert_array_equal(one.density_ratio, other.density_ratio)
        histories = [
            [{name: value for name, value in record.items() if name != "seconds"} for record in folder.read_history()]
            for folder in (with_curve, without)
        ]
        assert histories[0] == histories[1]

    def test_nothing_of_it_is_in_the_model(self) -> None:
        with_curve, without = run("with"), run("without", learning_curve=False)
        kept, expected = (load_checkpoint(folder.checkpoint) for folder in (with_curve, without))
        assert kept["model"].keys() == expected["model"].keys()
        names = {name for record in load_model(with_curve.checkpoint).history for name in record}
        assert not names & set(CURVE_METRICS)

    def test_without_rows_held_out_there_are_no_columns_of_the_source(self) -> None:
        folder = run("run", training={"epochs": 1, "validation_fraction": 0.0})
        assert folder.read_learning_curve()[0].keys() == {"epoch", *CURVE_METRICS}

    def test_needs_labels(self) -> None:
        with pytest.raises(InvalidInputError, match=r"learning curve needs labels.*'inputs\.npy' has none.*--test"):
            run("run", target="inputs.npy")
        assert not Path("run").exists()
        assert epochs_of(run("run", target="inputs.npy", test="target.npz")) == [1, 2, 3, 4]

    def test_is_shown_in_the_report(self) -> None:
        folder = run("run")
        assert read_contents(folder).learning_curve == folder.read_learning_curve()
        report_run(folder)
        assert 'id="learning-curve"' in folder.report.read_text(encoding="utf-8")


class TestResuming:
    @pytest.fixture
    def interrupted(self, monkeypatch: pytest.MonkeyPatch) -> RunFolder:
        """Stopped in the third epoch; the state is that of the last step, the curve has two rows."""
        watch = LearningCurve.__call__

        def watch_and_stop(curve: LearningCurve, epoch: int, predict: Any) -> None:
            watch(curve, epoch, predict)
            if epoch == 2:
                os.kill(os.getpid(), signal.SIGINT)

        with monkeypatch.context() as patch:
            patch.setattr(LearningCurve, "__call__", watch_and_stop)
            with pytest.raises(TrainingInterrupted):
                run("stopped")
        return RunFolder(Path("stopped"))

    def test_keeps_the_rows_before(self, interrupted: RunFolder) -> None:
        assert epochs_of(interrupted) == [1, 2]
        run("stopped", resume=True)
        assert interrupted.read_learning_curve() == run("whole").read_learning_curve()

    def test_repeats_no_row(self, interrupted: RunFolder) -> None:
        """A killed run has rows of epochs that its last checkpoint does not know."""
        rows = interrupted.read_learning_curve()
        interrupted.write_learning_curve([*rows, {**rows[-1], "epoch": 3, "accuracy": -1}])
        run("stopped", resume=True)
        assert interrupted.read_learning_curve() == run("whole").read_learning_curve()

    def test_may_begin_or_stop_watching(self, interrupted: RunFolder) -> None:
        run("stopped", resume=True, learning_curve=False)
        assert epochs_of(interrupted) == [1, 2]

    def test_a_new_run_inherits_no_rows_of_a_killed_one(self) -> None:
        remains = RunFolder(Path("run"))
        remains.write_config({})
        (remains.path / LOCK_FILE).touch()
        remains.write_learning_curve([{"epoch": 9, "accuracy": 1.0}])
        run("run", learning_curve=False)
        assert not remains.learning_curve.exists()
