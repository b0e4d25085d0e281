import csv
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from shiftcal.calibrators.base import CalibrationData
from shiftcal.core.errors import InvalidInputError, OutputError, UnknownNameError
from shiftcal.core.folder_lock import LOCK_FILE, folder_lock
from shiftcal.data.batches import ShiftProblem
from shiftcal.runs.comparison import (
    ComparisonPlan,
    Contender,
    find_cells,
    parse_contenders,
    run_comparison,
    write_tables,
)
from shiftcal.runs.engines import LocalProcesses
from shiftcal.runs.life_cycle import check_same_options
from shiftcal.runs.reporting import RunContents
from shiftcal.runs.tasks import Task
from shiftcal.training.fit import fit_model
from shiftcal.training.fitted_model import FittedModel

pytestmark = pytest.mark.usefixtures("quick_estimate")

METHODS = "source-only,source-only+temperature,source-only+histogram[num_bins=2],drl[ratio_strength=0.5]"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("comparison")
    generator = np.random.default_rng(0)
    labels = np.arange(60) % 3
    for name, shift in (("source", 0.0), ("near", 0.5), ("far", 2.0)):
        inputs = 2 * np.eye(3, 4)[labels] + generator.normal(size=(60, 4)) + shift
        np.savez(folder / f"{name}.npz", x=inputs.astype(np.float32), y=labels)
    return folder


@pytest.fixture(autouse=True)
def reported(place: Path, monkeypatch: pytest.MonkeyPatch) -> list[RunContents]:
    """The runs that would be in the report: drawing takes most of the time, and tests/test_cli.py does it."""
    monkeypatch.chdir(place)
    shown: list[RunContents] = []

    def write_report(runs: Sequence[RunContents], path: Path, *, title: str, **_: object) -> None:
        shown.extend(runs)
        path.write_text(title)

    monkeypatch.setattr("shiftcal.runs.comparison.tables.write_report", write_report)
    return shown


def plan(**changes: Any) -> ComparisonPlan:
    chosen: dict[str, Any] = {
        "tasks": (Task("source.npz", "near.npz"), Task("source.npz", "far.npz")),
        "contenders": parse_contenders(METHODS),
        "num_seeds": 2,
        "settings": ("epochs=2",),
    }
    return ComparisonPlan(**chosen | changes)


@pytest.fixture(scope="module")
def finished(place: Path, quick_estimate: None) -> Path:
    """A folder with every cell of the plan."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        patch.setattr("shiftcal.runs.comparison.tables.write_report", lambda *arguments, **more: None)
        run_comparison(plan(), Path("finished"))
    return place / "finished"


def results(folder: Path) -> list[dict[str, str]]:
    with (folder / "results.csv").open(encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


def times_of_cells(folder: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in (folder / "cells").rglob("*") if path.is_file()}


class TestContenders:
    def test_every_form(self) -> None:
        assert parse_contenders("drl, source-only+temperature,drl[ratio_bound=5;epochs=2]+temperature") == (
            Contender("drl"),
            Contender("source-only", "temperature"),
            Contender("drl", "temperature", ("ratio_bound=5", "epochs=2")),
        )
        assert parse_contenders("drl+cpcs[ratio=model;largest_weight=],drl[epochs=2]+histogram[num_bins=3]") == (
            Contender("drl", "cpcs", (), ("ratio=model", "largest_weight=")),
            Contender("drl", "histogram", ("epochs=2",), ("num_bins=3",)),
        )

    @pytest.mark.parametrize(
        "text",
        [
            "drl",
            "drl+temperature",
            "drl[ratio_bound=5;epochs=2]",
            "drl[epochs=2]+temperature",
            "drl[epochs=2]+cpcs[ratio=model;self_normalize=true]",
        ],
    )
    def test_name_is_what_was_written(self, text: str) -> None:
        assert parse_contenders(text)[0].name == text

    def test_repetitions_count_once(self) -> None:
        assert len(parse_contenders("drl,drl,,")) == 1

    @pytest.mark.parametrize(
        "text",
        ["drl[", "drl]", "[epochs=2]", "+temperature", "drl[epochs=2]temperature", "drl+cpcs[", "drl+cpcs+matrix"],
    )
    def test_malformed(self, text: str) -> None:
        with pytest.raises(InvalidInputError, match="METHOD"):
            parse_contenders(text)

    def test_none(self) -> None:
        with pytest.raises(InvalidInputError, match="at least one method"):
            parse_contenders(" , ")

    def test_unknown_calibrator(self) -> None:
        with pytest.raises(UnknownNameError, match="temperature"):
            parse_contenders("drl+temprature")

    @pytest.mark.parametrize(
        ("contender", "message"),
        [
            ("drl+histogram[num_bin=3]", "option of calibrator 'histogram' 'num_bin'"),
            ("drl[num_bins=3]+histogram", "option of method 'drl' or of training 'num_bins'"),
            ("drl+histogram[epochs=3]", "option of calibrator 'histogram' 'epochs'"),
        ],
    )
    def test_options_stand_behind_their_owner(self, contender: str, message: str) -> None:
        with pytest.raises(UnknownNameError, match=message):
            run_comparison(plan(contenders=parse_contenders(contender)), Path("unknown"))
        assert not Path("unknown").exists()


class TestRunning:
    def test_every_cell_is_in_the_results(self, finished: Path) -> None:
        rows = results(finished)
        assert {(row["task"], row["method"], row["seed"]) for row in rows} == {
            (f"source.npz->{target}.npz", method, seed)
            for target in ("near", "far")
            for method in METHODS.split(",")
            for seed in "01"
        }
        assert len(rows) == 16
        assert all(0 <= float(row["accuracy"]) <= 1 for row in rows)
        table = (finished / "table.md").read_text(encoding="utf-8")
        assert all(method in table for method in METHODS.split(","))

    def test_a_calibrator_is_fitted_to_the_model_that_was_trained(self, finished: Path) -> None:
        by_key = {(row["task"], row["method"], row["seed"]): row for row in results(finished)}
        for (task, method, seed), row in by_key.items():
            plain = by_key[task, method.partition("+")[0], seed]
            assert row["accuracy"] == plain["accuracy"]
            assert (row["negative_log_likelihood"] == plain["negative_log_likelihood"]) == (row is plain)

    def test_seeds_and_options_reach_the_cells(self, finished: Path) -> None:
        for (_, contender, seed), folder in find_cells(finished).items():
            config = folder.read_config()
            assert config["training"]["random_state"] == seed
            assert config["training"]["epochs"] == 2
            assert config["calibrator"] == (contender.partition("+")[2].partition("[")[0] or None)
            assert config["calibrator_options"].get("num_bins", 2) == 2
            assert config["method_options"].get("ratio_strength", 0.5) == 0.5

    def test_finished_cells_are_kept(
        self, finished: Path, monkeypatch: pytest.MonkeyPatch, reported: list[RunContents]
    ) -> None:
        monkeypatch.setattr("shiftcal.runs.comparison.scheduler.fit_model", None)
        before, rows = times_of_cells(finished), results(finished)
        run_comparison(plan(), finished)
        assert times_of_cells(finished) == before
        assert results(finished) == rows
        assert [run.name for run in reported] == METHODS.split(",")

    def test_only_what_is_missing_is_run(self, finished: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        seeds = []

        def counted(problem: Any, recipe: Any, **more: Any) -> Any:
            seeds.append(recipe.training.random_state)
            return fit_model(problem, recipe, **more)

        monkeypatch.setattr("shiftcal.runs.comparison.scheduler.fit_model", counted)
        before = times_of_cells(finished)
        run_comparison(plan(tasks=(Task("source.npz", "near.npz"),), num_seeds=3), finished)
        assert seeds == [2, 2]
        assert times_of_cells(finished).items() >= before.items()

    def test_a_model_is_asked_once_for_all_its_calibrators(
        self, finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Whether it was just trained or is read from its cell; and they learn the same from it."""
        asked, observed = [], FittedModel.observed

        def counted(model: FittedModel, problem: ShiftProblem) -> CalibrationData:
            asked.append(model.recipe.method_name)
            return observed(model, problem)

        monkeypatch.setattr(FittedModel, "observed", counted)
        one_task = {"tasks": (Task("source.npz", "near.npz"),), "num_seeds": 1}
        run_comparison(plan(**one_task, contenders=parse_contenders("source-only,source-only+temperature")), tmp_path)
        assert asked == ["source-only"]
        run_comparison(plan(**one_task), tmp_path)
        assert asked == ["source-only", "source-only", "drl"]
        expected = find_cells(finished)
        for key, folder in find_cells(tmp_path).items():
            assert folder.read_metrics() == expected[key].read_metrics()

    def test_other_options_are_refused(self, finished: Path) -> None:
        before = times_of_cells(finished)
        with pytest.raises(OutputError, match=r"another epochs: 2 then, 3 now.*another --out"):
            run_comparison(plan(settings=("epochs=3",)), finished)
        with pytest.raises(OutputError, match="another backbone: 'mlp' then, 'linear' now"):
            run_comparison(plan(backbone="linear"), finished)
        by_hand = find_cells(finished)["source.npz->near.npz", "source-only+histogram[num_bins=2]", 0]
        with pytest.raises(OutputError, match="another num_bins: 2 then, 3 now"):
            check_same_options(
                plan().config(plan().tasks[0], Contender("source-only", "histogram", (), ("num_bins=3",)), 0), by_hand
            )
        assert times_of_cells(finished) == before

    def test_cells_of_other_data_are_refused(self, finished: Path) -> None:
        before, near = times_of_cells(finished), Path("near.npz").read_bytes()
        with np.load("near.npz") as arrays:
            changed = {"x": arrays["x"], "y": np.roll(arrays["y"], 1)}
        np.savez("near.npz", **changed)
        try:
            with pytest.raises(
                OutputError, match=r"the target data 'near\.npz' has other content than when the run in"
            ):
                run_comparison(plan(), finished)
        finally:
            Path("near.npz").write_bytes(near)
        assert times_of_cells(finished) == before

    def test_what_a_killed_process_left_of_its_lock_is_removed(self, finished: Path) -> None:
        lock = find_cells(finished)["source.npz->near.npz", "source-only", 0].path / LOCK_FILE
        lock.touch()
        run_comparison(plan(), finished)
        assert not lock.exists()

    def test_a_second_process_is_refused(self, finished: Path) -> None:
        with folder_lock(finished), pytest.raises(OutputError, match="is in use by process"):
            run_comparison(plan(), finished)

    def test_data_are_read_again_by_each_comparison(self) -> None:
        small = plan(tasks=(Task("source.npz", "changing.npz"),), contenders=(Contender("source-only"),), num_seeds=1)
        for name, num_rows in (("before", 60), ("after", 30)):
            with np.load("far.npz") as arrays:
                np.savez("changing.npz", x=arrays["x"][:num_rows], y=arrays["y"][:num_rows])
            run_comparison(small, Path(name))
            assert results(Path(name))[0]["num_samples"] == str(num_rows)

    def test_an_error_in_a_process_reaches_the_caller(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Threads stand for processes, which are in tests/training/test_processes.py."""
        threads = "shiftcal.runs.engines.ProcessPoolExecutor"
        monkeypatch.setattr(threads, lambda jobs, **_: ThreadPoolExecutor(jobs))
        wrong = plan(tasks=(Task("source.npz", "far.npz"),), backbone="mpl", num_seeds=1)
        with pytest.raises(UnknownNameError, match="Did you mean 'mlp'"):
            run_comparison(wrong, Path("wrong"), engine=LocalProcesses(2))
        assert not Path("wrong").exists()

    def test_other_files_are_left_alone(self) -> None:
        Path("mine").mkdir()
        Path("mine/notes.txt").write_text("mine")
        with pytest.raises(OutputError, match="holds other files"):
            run_comparison(plan(), Path("mine"))
        assert [path.name for path in Path("mine").iterdir()] == ["notes.txt"]

    def test_the_seed_is_not_an_option(self) -> None:
        with pytest.raises(InvalidInputError, match="random_state"):
            run_comparison(plan(settings=("random_state=3",)), Path("seeded"))
        with pytest.raises(InvalidInputError, match="random_state"):
            run_comparison(plan(settings=("training.random_state=3",)), Path("seeded"))
        assert not Path("seeded").exists()

    def test_tasks_must_not_share_a_folder(self) -> None:
        tasks = (Task("./source.npz", "near.npz"), Task(".//source.npz", "near.npz"))
        with pytest.raises(InvalidInputError, match="share a folder"):
            run_comparison(plan(tasks=tasks), Path("shared"))
        assert not Path("shared").exists()


class TestLearningCurves:
    def test_of_every_model_that_is_trained(self) -> None:
        folder = Path("curves")
        small = plan(contenders=parse_contenders("source-only+temperature,drl"), num_seeds=1)
        run_comparison(small, folder, learning_curves=True)
        with (folder / "learning_curves.csv").open(encoding="utf-8") as stream:
            rows = list(csv.DictReader(stream))
        assert [(row["task"], row["method"], row["seed"], row["epoch"]) for row in rows] == [
            (f"source.npz->{target}.npz", method, "0", epoch)
            for target in ("near", "far")
            for method in ("source-only", "drl")
            for epoch in "12"
        ]
        metrics = find_cells(folder)["source.npz->far.npz", "source-only", 0].read_metrics()["target"]
        last = next(row for row in rows if row["task"].endswith("far.npz") and row["epoch"] == "2")
        assert float(last["brier_score"]) == pytest.approx(metrics["brier_score"])

    def test_change_no_result_and_refuse_no_cell(self, finished: Path, tmp_path: Path) -> None:
        with_curves = run_comparison(plan(num_seeds=1), tmp_path, learning_curves=True)
        cells = {key: folder for key, folder in find_cells(finished).items() if key[2] == 0}
        for key, folder in find_cells(tmp_path).items():
            assert folder.read_metrics() == cells[key].read_metrics()
        assert run_comparison(plan(num_seeds=1), tmp_path) == with_curves
        assert (tmp_path / "learning_curves.csv").is_file()
        run_comparison(plan(), finished, learning_curves=True)
        assert not (finished / "learning_curves.csv").exists()


class TestTables:
    def test_cells_are_found_below_a_folder(self, finished: Path) -> None:
        cells = find_cells(finished)
        assert ("source.npz->far.npz", "drl[ratio_strength=0.5]", 1) in cells
        assert all(folder.is_finished for folder in cells.values())
        assert find_cells(finished / "cells") == {}

    def test_are_made_again_from_the_cells(self, finished: Path, tmp_path: Path) -> None:
        cells = {key: folder for key, folder in find_cells(finished).items() if key[2] < 2}
        write_tables(tmp_path, cells, report=tmp_path / "elsewhere.html")
        assert {path.name for path in tmp_path.iterdir()} == {"results.csv", "table.md", "elsewhere.html"}
        assert len(results(tmp_path)) == 16


def test_a_contender_may_have_a_network_of_its_own() -> None:
    """Which is no option of the method: the same method with two backbones stands in one comparison."""
    own, other = parse_contenders("drl[backbone=small-cnn;freeze_backbone=true;image_size=24;ratio_strength=0.5],drl")
    of_own, of_other = (plan(backbone="mlp").config(Task("a.npz", "b.npz"), each, 1) for each in (own, other))
    assert (of_own.backbone, of_own.freeze_backbone, of_own.image_size) == ("small-cnn", True, 24)
    assert of_own.method_options == {"ratio_strength": 0.5}
    assert (of_other.backbone, of_other.freeze_backbone, of_other.image_size) == ("mlp", False, None)
    (wrong,) = parse_contenders("drl[freeze_backbone=often]")
    with pytest.raises(InvalidInputError, match="a comparison: 'freeze_backbone' must be true or false"):
        plan().config(Task("a.npz", "b.npz"), wrong, 1)


def test_several_workers_begin_with_the_longest(place: Path, tmp_path: Path) -> None:
    """So that none of them is left with a long one while the others have nothing to do; one keeps the given order."""
    generator = np.random.default_rng(1)
    long = tmp_path / "long.npz"
    np.savez(long, x=generator.normal(size=(300, 4)).astype(np.float32), y=np.arange(300) % 3)
    short, longer = Task(str(place / "source.npz"), str(place / "near.npz")), Task(str(long), str(place / "near.npz"))

    class Recorded(LocalProcesses):
        asked: ClassVar[list[Task]] = []

        def results(self, function: Callable[[Any], Any], parts: Sequence[Any]) -> Iterator[Any]:
            self.asked[:] = [part.task for part in parts]
            return map(function, parts)

    two = plan(tasks=(short, longer), contenders=parse_contenders("source-only"), num_seeds=1)
    for num_workers, expected in ((1, [short, longer]), (2, [longer, short])):
        run_comparison(two, tmp_path / f"by-{num_workers}", engine=Recorded(num_workers))
        assert Recorded.asked == expected
