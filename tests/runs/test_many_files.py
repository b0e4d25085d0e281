"""Many files: each is done once, and again only where its content or what is done with it has changed."""

import json
from functools import partial
from pathlib import Path

import pandas as pd
import pytest

from shiftcal import AdaptiveClassifier
from shiftcal.core.errors import DataUnavailableError, InvalidInputError, OutputError
from shiftcal.faces.cli import main
from shiftcal.runs.engines import LocalProcesses
from shiftcal.runs.many_files import RECORD, DoneFile, for_each_file

pytestmark = pytest.mark.usefixtures("coarse_estimate")


def shout(calls: list[str], path: Path, out: Path) -> int:
    text = path.read_text()
    if text == "wrong":
        raise InvalidInputError("can't shout this")
    calls.append(path.name)
    out.write_text(text.upper())
    return len(text)


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    paths = [tmp_path / "a.txt", tmp_path / "b.txt.gz"]
    for path in paths:
        path.write_text(path.name[0])
    return paths


def do(files: list[Path], out: Path, made_by: str = "shout 1") -> tuple[list[str], list[DoneFile]]:
    calls: list[str] = []
    work = partial(shout, calls)
    return calls, for_each_file(work, files, out, suffix=".csv", made_by=made_by, engine=LocalProcesses())


def test_each_is_done_once(files: list[Path], tmp_path: Path) -> None:
    out = tmp_path / "out"
    calls, done = do(files, out)
    assert calls == ["a.txt", "b.txt.gz"]
    assert [(each.result, each.num_rows) for each in done] == [("a.csv", 1), ("b.csv", 1)]
    assert {path.name: path.read_text() for path in out.iterdir() if path.name != RECORD} == {
        "a.csv": "A",
        "b.csv": "B",
    }
    assert do(files, out) == ([], done)
    files[0].write_text("aa")
    assert do(files, out)[0] == ["a.txt"]
    (out / "b.csv").unlink()
    assert do(files, out)[0] == ["b.txt.gz"]
    assert do(files, out, "shout 2")[0] == ["a.txt", "b.txt.gz"]


def test_what_was_done_before_an_error_or_a_kill_is_kept(files: list[Path], tmp_path: Path) -> None:
    out = tmp_path / "out"
    files[1].write_text("wrong")
    with pytest.raises(InvalidInputError, match="can't shout"):
        do(files, out)
    with (out / RECORD).open("a") as stream:
        stream.write('[]\n{"data": 1, "result": [], "num_rows": 1, "content": 1, "made_by": 1}\n{"data": "cut o')
    files[1].write_text("b")
    assert do(files, out)[0] == ["b.txt.gz"]
    assert len([json.loads(line) for line in (out / RECORD).read_text().splitlines()]) == 2


def test_what_is_refused(files: list[Path], tmp_path: Path) -> None:
    out = tmp_path / "out"
    with pytest.raises(DataUnavailableError, match=r"no file at .*c\.txt' \(1 of 2"):
        do([files[0], tmp_path / "c.txt"], out)
    with pytest.raises(InvalidInputError, match=r"would both have the result 'a\.csv'"):
        do([files[0], files[0]], out)
    with pytest.raises(OutputError, match="holds other files"):
        do(files, tmp_path)
    assert not out.exists()


def test_many_files_are_predicted_as_each_alone(tmp_path: Path) -> None:
    table = pd.DataFrame({"x": [0.1, 0.9, 0.2, 0.7] * 20, "y": [1.0, 2.0, 3.0, 4.0] * 20})
    AdaptiveClassifier("source-only", epochs=1).fit(table, ["a", "b", "a", "b"] * 20, table).save(tmp_path / "run")
    for name, rows in (("monday", 40), ("tuesday", 60)):
        table[:rows].to_csv(tmp_path / f"{name}.csv", index=False)
    days = [str(tmp_path / f"{name}.csv") for name in ("monday", "tuesday")]
    predict = ["predict", str(tmp_path / "run")]
    assert main([*predict, "--files", *days, "--out", str(tmp_path / "out"), "--format", "parquet"]) == 0
    assert main([*predict, "--data", days[1], "--out", str(tmp_path / "alone.parquet")]) == 0
    found, alone = (pd.read_parquet(tmp_path / name) for name in ("out/tuesday.parquet", "alone.parquet"))
    pd.testing.assert_frame_equal(found, alone)
    assert len(pd.read_parquet(tmp_path / "out/monday.parquet")) == 40


def test_targets_are_calibrated_each_by_itself(tmp_path: Path) -> None:
    table = pd.DataFrame({"probability_a": [0.9, 0.2, 0.7, 0.4] * 20})
    table["probability_b"] = 1 - table["probability_a"]
    table.assign(label=["a", "b", "a", "b"] * 20).to_csv(tmp_path / "source.csv", index=False)
    for name, rows in (("monday", 40), ("tuesday", 60)):
        table[:rows].to_csv(tmp_path / f"{name}.csv", index=False)
    days = [str(tmp_path / f"{name}.csv") for name in ("monday", "tuesday")]
    command = ["calibrate", "--source", str(tmp_path / "source.csv"), "--targets", *days]
    assert main([*command, "--out", str(tmp_path / "out")]) == 0
    assert main(["calibrate", *command[1:3], "--target", days[0], "--out", str(tmp_path / "alone.csv")]) == 0
    assert (tmp_path / "out" / "monday.csv").read_text() == (tmp_path / "alone.csv").read_text()
    assert len(pd.read_csv(tmp_path / "out" / "tuesday.csv")) == 60
    assert "verdict" in json.loads((tmp_path / "out" / "tuesday.json").read_text())
