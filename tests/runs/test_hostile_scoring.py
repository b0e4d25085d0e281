"""Scoring that finds other things than it left: in the folder of its parts, and in the record of many files."""

from pathlib import Path

import numpy as np
import pytest

from shiftcal import AdaptiveClassifier
from shiftcal.faces.cli import main
from shiftcal.runs import scoring
from shiftcal.runs.many_files import RECORD

X = np.random.default_rng(0).normal(size=(60, 3)).astype(np.float32)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "run"
    AdaptiveClassifier("source-only", calibrator=None, epochs=1).fit(X, X[:, 0] > 0).save(folder)
    return folder


@pytest.fixture(autouse=True)
def _place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(scoring, "ROWS_OF_A_PART", 16)
    np.save("x.npy", X)


def predict(run: Path, out: str = "p.csv") -> int:
    return main(["predict", str(run), "--data", "x.npy", "--out", out])


def test_files_of_the_user_stop_it_and_stay(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    theirs = Path("p.csv.parts")
    theirs.mkdir()
    for name in ("notes.csv", "00000000.csv"):
        (theirs / name).write_text("mine", encoding="utf-8")
    assert predict(run) == 2
    assert "holds other files, such as 'notes.csv'" in capsys.readouterr().err
    assert sorted(path.name for path in theirs.iterdir()) == ["00000000.csv", "notes.csv"]


def test_parts_that_lost_something_are_made_again(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert predict(run, "whole.csv") == 0

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(scoring, "_join_csv", killed)
        assert predict(run) == 130
    parts = Path("p.csv.parts")
    (parts / "00000000.rows").write_text("many", encoding="utf-8")
    (parts / "00000001.rows").write_bytes(b"\xff")
    (parts / "00000002.csv").unlink()
    assert predict(run) == 0
    assert Path("p.csv").read_bytes() == Path("whole.csv").read_bytes()
    assert not parts.exists()


def test_data_that_changed_in_between_are_scored_anew(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(scoring, "_join_csv", killed)
        assert predict(run) == 130
    np.save("x.npy", X[::-1])
    assert predict(run) == 0
    assert predict(run, "whole.csv") == 0
    assert Path("p.csv").read_bytes() == Path("whole.csv").read_bytes()


def test_lines_of_a_record_that_say_something_else_count_as_not_there(run: Path) -> None:
    command = ["predict", str(run), "--files", "x.npy", "--out", "out"]
    assert main(command) == 0
    expected = Path("out/x.csv").read_bytes()
    line = Path("out", RECORD).read_text(encoding="utf-8")
    for other in (line.replace('"num_rows": 60', '"num_rows": "60"'), "[" * 9000, "[]\n", '{"result": []}\n', "\x00"):
        Path("out", RECORD).write_text(other, encoding="utf-8")
        assert main(command) == 0
        assert Path("out/x.csv").read_bytes() == expected
        assert Path("out", RECORD).read_text(encoding="utf-8") == line
