import csv
import html
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from shiftcal import __version__
from shiftcal.calibrators import CALIBRATORS
from shiftcal.core.folder_lock import LOCK_FILE
from shiftcal.core.options import option_names
from shiftcal.data.catalog.registry import CATALOG
from shiftcal.faces.cli import COMMANDS, main
from shiftcal.faces.cli.answers import Answer
from shiftcal.methods import METHODS
from shiftcal.methods.networks.backbones import BACKBONES
from shiftcal.metrics import METRICS
from shiftcal.runs.folder import RunFolder
from shiftcal.runs.tasks import SUITES
from shiftcal.training.options import TrainingOptions
from shiftcal.training.trainer import Trainer

Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, _undrawn: None, quick_estimate: None) -> Path:
    """Data on disk, and a run on features and one on pictures."""
    folder = tmp_path_factory.mktemp("command-line")
    write_pictures(folder)
    write_features(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        features = "fit --source source.npz --target target.npz --calibrator temperature --out run --set epochs=2"
        assert main(features.split()) == 0
        pictures = "fit --source pictures --target photos --out picture_run --set epochs=1"
        assert main(pictures.split()) == 0
    return folder


@pytest.fixture(scope="module", autouse=True)
def _undrawn() -> Iterator[None]:
    """Drawing takes most of the time of a small run, and has tests of its own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("shiftcal.runs.reporting.figure_sections.as_data_uri", lambda draw, info: "data:,")
        yield


@pytest.fixture(autouse=True)
def _here(place: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    capsys.readouterr()
    monkeypatch.chdir(place)


def write_pictures(folder: Path) -> None:
    generator = np.random.default_rng(0)
    levels = {"pictures/cat": 30, "pictures/dog": 200, "photos": 110}
    lines = []
    for name, level in levels.items():
        (folder / name).mkdir(parents=True)
        for number in range(11):
            pixels = (level + generator.integers(0, 50, (12, 10, 3))).astype(np.uint8)
            Image.fromarray(pixels).save(folder / name / f"{number}.png")
            if name != "photos":
                lines.append(f"{name}/{number}.png {Path(name).name}\n")
    (folder / "list.txt").write_text("".join(lines))


def write_features(folder: Path) -> None:
    generator = np.random.default_rng(1)
    labels = np.arange(60) % 3
    names = np.array(["cat", "dog", "owl"])
    for name, shift in (("source", 0.0), ("target", 1.0), ("far", 2.0)):
        inputs = 2 * np.eye(3, 4)[labels] + generator.normal(size=(60, 4)) + shift
        np.savez(folder / f"{name}.npz", x=inputs.astype(np.float32), y=names[labels])
    np.save(folder / "inputs.npy", inputs.astype(np.float32))


def succeed(line: str, capsys: Capture) -> str:
    """What a command prints; nothing may go to stderr where that is not a terminal."""
    assert main(line.split()) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    return captured.out


def files_of(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def read_table(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


class TestFit:
    def test_leaves_a_whole_run(self) -> None:
        for run in ("run", "picture_run"):
            assert files_of(Path(run)) == {
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
            assert "</html>" in (Path(run) / "report.html").read_text(encoding="utf-8")

    def test_one_line_of_history_for_each_epoch(self) -> None:
        lines = Path("run/history.jsonl").read_text().splitlines()
        assert [json.loads(line)["epoch"] for line in lines] == [1, 2]

    def test_without_labels_of_the_target(self) -> None:
        metrics = json.loads(Path("picture_run/metrics.json").read_text())
        assert {"num_samples", "mean_confidence", "median_density_ratio"} <= metrics["target"].keys()
        assert not {"accuracy", "expected_calibration_error", "set_coverage_90"} & metrics["target"].keys()
        assert metrics["source"]["num_samples"] == 2

    def test_says_what_to_expect_first_and_where_the_report_is_last(self, capsys: Capture) -> None:
        line = "fit --source pictures --target photos --out picture_run --set epochs=1 --resume"
        words = succeed(line, capsys).splitlines()
        assert words[0].startswith("Accuracy to be expected on the target, found without its labels: ")
        assert words[-1] == "report: picture_run/report.html"
        assert len(words) <= 4
        assert "  mean_confidence" in succeed(f"{line} --verbose", capsys)

    def test_without_a_target_nothing_is_expected_of_one(self, capsys: Capture) -> None:
        printed = succeed("fit --source list.txt --out listed --set epochs=1", capsys)
        assert printed.startswith("No target was given")
        assert "right on held-out source rows" in printed

    def test_resume_of_a_finished_run_repeats_what_it_said(self, capsys: Capture) -> None:
        line = "fit --source source.npz --target target.npz --calibrator temperature --out run --set epochs=2"
        written = Path("run/checkpoint.pt").stat().st_mtime_ns
        assert "report: run/report.html" in succeed(f"{line} --resume", capsys)
        assert Path("run/checkpoint.pt").stat().st_mtime_ns == written

    def test_resume_with_other_options(self, capsys: Capture) -> None:
        line = (
            "fit --source source.npz --target target.npz --calibrator temperature --out run --resume --set epochs=3"
        )
        assert main(line.split()) == 2
        assert "another epochs: 2 then, 3 now" in capsys.readouterr().err

    def test_interrupted(self, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
        line = "fit --source source.npz --target target.npz --out stopped --set epochs=3"
        step = Trainer._step

        def step_and_stop(trainer: Trainer, batch: Any) -> dict[str, Any]:
            os.kill(os.getpid(), signal.SIGTERM)
            return step(trainer, batch)

        with monkeypatch.context() as patch:
            patch.setattr(Trainer, "_step", step_and_stop)
            assert main(line.split()) == 130
        assert "--resume" in capsys.readouterr().err
        predict = "predict stopped --data target.npz --out stopped.csv"
        assert main(predict.split()) == 2
        assert "not finished" in capsys.readouterr().err
        assert not Path("stopped.csv").exists()
        assert main(line.split()) == 2
        assert "add --resume" in capsys.readouterr().err
        assert "right on held-out source rows" in succeed(f"{line} --resume", capsys)


class TestRun:
    def test_configuration_of_a_run_gives_its_numbers(self, capsys: Capture) -> None:
        printed = succeed("run run/config.yaml --out again", capsys)
        assert "report: again/report.html" in printed
        first, again = RunFolder(Path("run")), RunFolder(Path("again"))
        assert again.read_metrics() == first.read_metrics()
        assert again.read_config() == first.read_config()

    def test_settings_and_the_default_folder(
        self, capsys: Capture, place: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        monkeypatch.chdir(tmp_path)
        Path("short.yaml").write_text(
            f"source: {place}/source.npz\nmethod: source-only\ntraining: {{epochs: 5}}\n"
            "calibrator: histogram\ncalibrator_options: {num_bins: 5}\n"
        )
        succeed("run short.yaml --set epochs=1 --set learning_rate=1e-2 --set calibrator.num_bins=3", capsys)
        config = RunFolder(Path("runs/short")).read_config()
        assert config["calibrator_options"] == {"num_bins": 3}
        assert config["training"]["epochs"] == 1
        assert config["method_options"]["learning_rate"] == 0.01

    def test_a_configuration_of_the_users_is_never_the_place_of_the_run(
        self, capsys: Capture, place: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        monkeypatch.chdir(tmp_path)
        Path("mine").mkdir()
        text = f"source: {place}/source.npz\nmethod: source-only  # as agreed\ntraining: {{epochs: 1}}\n"
        Path("mine/config.yaml").write_text(text)
        for left_by_a_killed_run in (False, True):
            if left_by_a_killed_run:
                Path("mine", LOCK_FILE).touch()
            for line in ("run mine/config.yaml --out mine", "run mine/config.yaml --out mine --resume"):
                assert main(line.split()) == 2
                assert "is an input of this command and would be lost" in capsys.readouterr().err
                assert Path("mine/config.yaml").read_text() == text


class TestPredict:
    def test_csv_of_features(self, capsys: Capture) -> None:
        assert succeed("predict run --data target.npz --out new/p.csv", capsys) == "60 predictions: new/p.csv\n"
        rows = read_table(Path("new/p.csv"))
        names = ["id", "predicted_class", "confidence", "probability_cat", "probability_dog", "probability_owl"]
        assert list(rows[0]) == [*names, "density_ratio"]
        assert [row["id"] for row in rows] == [str(number) for number in range(60)]
        for row in rows:
            probabilities = {name: float(row[f"probability_{name}"]) for name in ("cat", "dog", "owl")}
            assert sum(probabilities.values()) == pytest.approx(1)
            assert row["predicted_class"] == max(probabilities, key=lambda name: probabilities[name])
            assert float(row["confidence"]) == max(probabilities.values())
            assert float(row["density_ratio"]) > 0

    def test_is_what_the_run_itself_predicted(self, capsys: Capture) -> None:
        succeed("predict run --data target.npz --out p.npz", capsys)
        with np.load("p.npz") as found, np.load("run/predictions/target.npz") as wanted:
            np.testing.assert_array_equal(found["probabilities"], wanted["probabilities"])
            np.testing.assert_array_equal(found["id"], wanted["ids"])

    def test_ids_of_pictures_are_their_paths(self, capsys: Capture) -> None:
        succeed("predict picture_run --data pictures --out pictures.csv", capsys)
        ids = [row["id"] for row in read_table(Path("pictures.csv"))]
        assert ids[0] == "cat/0.png"
        assert len(ids) == 22
        succeed("predict picture_run --data list.txt --out list.csv", capsys)
        assert read_table(Path("list.csv"))[0]["id"] == "pictures/cat/0.png"
        succeed("predict picture_run --data photos --out photos.csv", capsys)
        assert read_table(Path("photos.csv"))[0]["id"] == "0.png"

    def test_formats_agree(self, capsys: Capture) -> None:
        parquet = pytest.importorskip("pyarrow.parquet")
        for suffix in ("csv", "npz", "parquet"):
            succeed(f"predict run --data inputs.npy --out same.{suffix}", capsys)
        rows = read_table(Path("same.csv"))
        table = parquet.read_table("same.parquet").to_pydict()
        assert list(table) == list(rows[0])
        with np.load("same.npz") as arrays:
            np.testing.assert_allclose(arrays["probabilities"].sum(axis=1), 1, atol=1e-12)
            np.testing.assert_array_equal(table["probability_dog"], arrays["probabilities"][:, 1])
            np.testing.assert_array_equal([float(row["density_ratio"]) for row in rows], arrays["density_ratio"])
            assert [row["predicted_class"] for row in rows] == arrays["predicted_class"].tolist()


class TestEvaluate:
    def test_prints_every_metric(self, capsys: Capture) -> None:
        printed = succeed("evaluate run --data target.npz", capsys)
        assert printed.startswith("target.npz:\n")
        assert [line.split()[0] for line in printed.splitlines()[1:]] == list(METRICS)

    def test_json_is_what_the_run_found(self, capsys: Capture) -> None:
        metrics = json.loads(succeed("evaluate run --data target.npz --json", capsys))
        found = RunFolder(Path("run")).read_metrics()["target"]
        assert metrics == {name: found[name] for name in METRICS}


def test_calibrate_takes_the_tables_that_predict_writes(capsys: Capture) -> None:
    for name in ("source", "far"):
        succeed(f"predict run --data {name}.npz --out {name}.csv", capsys)
        with np.load(f"{name}.npz") as arrays:
            np.save(f"{name}_features.npy", arrays["x"])
            rows = [
                {**row, "label": label}
                for row, label in zip(read_table(Path(f"{name}.csv")), arrays["y"], strict=True)
            ]
        with Path(f"{name}_labelled.csv").open("w", newline="", encoding="utf-8") as stream:
            writer = csv.DictWriter(stream, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
    features = "--source-features source_features.npy --target-features far_features.npy"
    line = f"calibrate --source source_labelled.csv --target far.csv {features} --out calibrated.csv"
    printed = succeed(line, capsys)
    assert "Accuracy to be expected on the target" in printed
    assert printed.endswith("60 predictions: calibrated.csv\n")
    before, after = read_table(Path("far.csv")), read_table(Path("calibrated.csv"))
    assert [row["predicted_class"] for row in after] == [row["predicted_class"] for row in before]
    assert "target calibrated:" in succeed(line.replace("far.csv", "far_labelled.csv"), capsys)
    assert "Accuracy to be expected on the target" in succeed(line.replace(features, ""), capsys)


def test_calibrate_needs_source_labels(capsys: Capture) -> None:
    succeed("predict run --data source.npz --out unlabelled.csv", capsys)
    line = "calibrate --source unlabelled.csv --target unlabelled.csv --out out.csv"
    assert main(line.split()) == 2
    assert "a column 'label'" in capsys.readouterr().err
    assert not Path("out.csv").exists()


def test_no_command_writes_over_what_it_reads(capsys: Capture) -> None:
    succeed("predict run --data source.npz --out in.csv", capsys)
    before = {path: path.read_bytes() for path in map(Path, ("in.csv", "inputs.npy", "source.npz"))}
    for line in (
        "calibrate --source in.csv --target unlabelled.csv --out in.csv",
        "calibrate --source unlabelled.csv --target in.csv --out ./in.csv",
        "predict run --data source.npz#x=x --out source.npz",
        "predict run --data source.npz --out run/predictions/target.npz",
    ):
        assert main(line.split()) == 2
        assert "is an input of this command and would be lost; choose another --out" in capsys.readouterr().err
    assert before == {path: path.read_bytes() for path in before}


def test_compare_and_report(capsys: Capture) -> None:
    line = (
        "compare --tasks source.npz->far.npz --methods drl[ratio_bound=5],drl --seeds 1 --out compared --set epochs=1"
    )
    first = succeed(line, capsys)
    assert "drl[ratio_bound=5]" in first
    assert first.endswith("report: compared/report.html\n")
    assert files_of(Path("compared")) >= {"results.csv", "table.md", "report.html"}
    written = {path: path.stat().st_mtime_ns for path in Path("compared/cells").rglob("*.*")}
    assert succeed(line, capsys) == first
    assert {path: path.stat().st_mtime_ns for path in Path("compared/cells").rglob("*.*")} == written
    rows = json.loads(succeed(f"{line} --json", capsys))["table"]
    assert [row["method"] for row in rows] == ["drl[ratio_bound=5]", "drl"]
    assert 0 <= rows[0]["metrics"]["accuracy"]["mean"] <= 1
    assert main(f"{line} --set epochs=2".split()) == 2
    assert "another epochs: 1 then, 2 now" in capsys.readouterr().err
    Path("compared/report.html").unlink()
    assert succeed("report compared", capsys) == "report: compared/report.html\n"
    assert Path("compared/report.html").is_file()


def test_learning_curves_are_written_and_drawn(capsys: Capture) -> None:
    methods = "--methods source-only,source-only+temperature,drl --seeds 1"
    succeed(f"compare --tasks source.npz->far.npz {methods} --out curves --set epochs=2 --learning-curve", capsys)
    assert [row["epoch"] for row in read_table(Path("curves/learning_curves.csv"))] == ["1", "2", "1", "2"]
    page = Path("curves/report.html").read_text(encoding="utf-8")
    assert 'id="learning-curves"' in page
    assert 'id="learning-curve"' in page
    assert "source-only+temperature: No learning curve was recorded." in page
    succeed("run run/config.yaml --out watched --learning-curve", capsys)
    assert [row["epoch"] for row in read_table(Path("watched/learning_curve.csv"))] == ["1", "2"]
    assert RunFolder(Path("watched")).read_metrics() == RunFolder(Path("run")).read_metrics()


class TestEstimate:
    def test_a_page_of_it(self, capsys: Capture) -> None:
        printed = succeed("estimate run --data inputs.npy --report expected.html", capsys)
        assert "report: expected.html" in printed
        page = Path("expected.html").read_text(encoding="utf-8")
        verdict = printed.splitlines()[0]
        assert html.escape(verdict.split(".")[0]) in page
        assert "Balanced accuracy" in page
        assert "<img" not in page

    def test_no_page_over_its_own_input(self, capsys: Capture) -> None:
        before = Path("inputs.npy").read_bytes()
        assert main(["estimate", "run", "--data", "inputs.npy", "--report", "inputs.npy"]) == 2
        assert "inputs.npy" in capsys.readouterr().err
        assert Path("inputs.npy").read_bytes() == before


class TestReport:
    def test_of_a_run_is_made_again(self, capsys: Capture) -> None:
        before = Path("run/report.html").read_text(encoding="utf-8")
        assert succeed("report run --out again.html", capsys) == "report: again.html\n"
        assert len(Path("again.html").read_text(encoding="utf-8")) == pytest.approx(len(before), rel=0.05)

    def test_of_two_runs(self, capsys: Capture) -> None:
        succeed("report run picture_run --out both.html", capsys)
        page = Path("both.html").read_text(encoding="utf-8")
        assert "source-only + temperature" in page
        assert "<title>run and picture_run</title>" in page


def test_lists_name_everything(capsys: Capture) -> None:
    for what, expected in {
        "methods": [*METHODS, *option_names(METHODS["drl"])],
        "calibrators": [*CALIBRATORS, *option_names(CALIBRATORS["cpcs"])],
        "datasets": [*CATALOG],
        "backbones": [*BACKBONES],
        "metrics": [*METRICS],
        "tasks": [*SUITES],
        "training": option_names(TrainingOptions),
    }.items():
        words = [line.split()[0].split("/")[0] for line in succeed(f"list {what} --long", capsys).splitlines()]
        assert set(expected) <= set(words)


class TestHelp:
    def test_version(self, capsys: Capture) -> None:
        with pytest.raises(SystemExit) as stop:
            main(["--version"])
        assert stop.value.code == 0
        assert capsys.readouterr().out == f"shiftcal {__version__}\n"

    @pytest.mark.parametrize("command", COMMANDS)
    def test_of_each_command(self, command: str, capsys: Capture) -> None:
        with pytest.raises(SystemExit) as stop:
            main([command, "--help"])
        assert stop.value.code == 0
        assert COMMANDS[command].summary in " ".join(capsys.readouterr().out.split())


class TestJson:
    """`--json` prints one document, of the keys that the command's help names, and nothing else."""

    @pytest.mark.parametrize(
        "line",
        [
            "fit --source source.npz --target target.npz --calibrator temperature --out run --set epochs=2 --resume",
            "run run/config.yaml --out run --resume",
            "predict run --data target.npz --out document.csv",
            "evaluate run --data target.npz",
            "estimate run --data inputs.npy --report expected.html",
            "report run --out document.html",
            "list methods",
            "doctor",
        ],
    )
    def test_is_as_documented(self, line: str, capsys: Capture) -> None:
        found = json.loads(succeed(f"{line} --json", capsys))
        documented = COMMANDS[line.split()[0]].json
        if isinstance(found, list):
            assert {f"[].{key}" for key in found[0]} == {key for key in documented if key.startswith("[].")}
        elif "METRIC" in documented:
            assert found.keys() == METRICS.keys()
        else:
            assert found.keys() == documented.keys()

    def test_what_a_command_tells_along_the_way_is_no_part_of_it(
        self, capsys: Capture, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("shiftcal.faces.doctor.examine", lambda: print("on the way") or [])
        assert main(["doctor", "--json"]) == 0
        captured = capsys.readouterr()
        assert json.loads(captured.out) == []
        assert captured.err == "on the way\n"

    def test_numbers_that_json_does_not_have_are_null(self) -> None:
        plain = {"a": [float("nan"), np.float64(1.5)], "b": (Path("x"), True, None)}
        assert json.loads(Answer(plain, "").as_json()) == {"a": [None, 1.5], "b": ["x", True, None]}


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("fitt", "shiftcal: argument COMMAND: unknown command 'fitt'. Did you mean 'fit'?"),
        ("--verison", "shiftcal: unknown option '--verison'. Did you mean '--version'?"),
        ("fit --sorce=a.csv", "shiftcal: unknown option '--sorce'. Did you mean '--source'?"),
        ("list method", "unknown value 'method'. Did you mean 'methods'?"),
        ("calibrate --scale percents", "unknown value 'percents'. Did you mean 'percent'?"),
        ("fit --source a.csv", "shiftcal: the following arguments are required: --out. See `shiftcal fit --help`"),
    ],
)
def test_what_is_unknown_is_told_with_what_may_be_meant(line: str, words: str, capsys: Capture) -> None:
    with pytest.raises(SystemExit) as stop:
        main(line.split())
    assert stop.value.code == 2
    captured = capsys.readouterr()
    assert words in captured.err
    assert captured.err.count("\n") == 1


def test_an_error_is_one_line_on_stderr(capsys: Capture) -> None:
    assert main(["fit", "--source", "photos", "--out", "nothing"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("shiftcal: labels missing")
    assert said.err.count("\n") == 1
    assert not Path("nothing").exists()


def test_seeded_runs_are_the_same_whatever_came_before(capsys: Capture) -> None:
    torch.rand(3)
    line = "fit --source source.npz --target target.npz --set epochs=2 --calibrator temperature --out repeated"
    succeed(line, capsys)
    assert RunFolder(Path("repeated")).read_metrics() == RunFolder(Path("run")).read_metrics()
