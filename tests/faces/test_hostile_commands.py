"""Commands on tables as a hostile or hasty user gives them: one message, exit code 2, and no input is touched."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from shiftcal.faces.cli import main
from shiftcal.target.column_encoding import ColumnEncoder

CALIBRATE = ["calibrate", "--source", "source.csv", "--target"]
MONITOR = ["monitor", "--reference", "source.csv", "--batches", "target.csv"]
LABEL = ["label", "--reference", "source.csv", "--target"]
LOST = "would be lost"

CASES: dict[str, tuple[list[str], str]] = {
    "a header alone": ([*CALIBRATE, "header.csv", "--out", "o.csv"], "expected at least one row, got a header alone"),
    "a name twice": ([*CALIBRATE, "twice.csv", "--out", "o.csv"], "'probability_a' more than once"),
    "report over the source": ([*CALIBRATE, "target.csv", "--out", "o.csv", "--report", "source.csv"], LOST),
    "report over the table": ([*CALIBRATE, "target.csv", "--out", "o.csv", "--report", "o.csv"], LOST),
    "table over features": (
        [*CALIBRATE, "target.csv", "--source-features", "f.npz:s", "--target-features", "f.npz:t", "--out", "f.npz"],
        LOST,
    ),
    "monitor's page over the reference": ([*MONITOR, "--report", "source.csv"], LOST),
    "monitor's page over its record": ([*MONITOR, "--report", "m.html", "--state", "m.html"], LOST),
    "monitor's record over a batch": ([*MONITOR, "--state", "target.csv"], LOST),
    "rows to label over the target": ([*LABEL, "target.csv", "--out", "target.csv"], LOST),
    "other columns": ([*LABEL, "other.csv", "--out", "l.csv"], "there is no 'probability_a'"),
    "a seed below 0": ([*LABEL, "target.csv", "--out", "l.csv", "--seed", "-1"], "a whole number from 0 to"),
    "a report over a run's file": (["report", "run", "--out", "run/metrics.json"], LOST),
}


@pytest.fixture(autouse=True)
def _tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rows = "0.8,0.2,a\n0.3,0.7,b\n" * 10
    Path("source.csv").write_text(f"probability_a,probability_b,label\n{rows}")
    Path("target.csv").write_text("probability_a,probability_b\n" + "0.6,0.4\n" * 20)
    Path("header.csv").write_text("probability_a,probability_b\n")
    Path("twice.csv").write_text("probability_a,probability_b,probability_a\n1,0,0\n")
    Path("other.csv").write_text("x\n1\n2\n")
    np.savez("f.npz", s_x=np.zeros((20, 2)), t_x=np.zeros((20, 2)))
    Path("run").mkdir()
    Path("run/metrics.json").write_text("{}")


@pytest.mark.parametrize("case", CASES)
def test_one_message_and_nothing_is_lost(case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command, words = CASES[case]
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    try:
        code = main(command)
    except SystemExit as exit_:  # of argparse
        code = int(exit_.code or 0)
    said = capsys.readouterr().err
    assert code == 2
    assert words in said
    assert "Traceback" not in said
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_a_column_of_numbers_beyond_all_measure_can_be_squared() -> None:
    encoder = ColumnEncoder({"x": np.arange(3.0)})
    values = encoder.encoded({"x": np.array([1e308, -1e308, np.inf, np.nan])})
    assert np.isfinite(np.square(values).sum())
    assert values[2:].ravel().tolist() == [1.0, 1.0]


def test_rows_to_label_hold_no_formulas(monkeypatch: pytest.MonkeyPatch) -> None:
    from shiftcal.faces.cli import labelling

    target = pd.DataFrame({"name": ["=1+1", "@x", "b"], "size": [-1.0, 2.0, 3.0]})
    labelling._write(target, np.array([1, 0]), "label", Path("l.csv"))
    assert Path("l.csv").read_text().splitlines()[1:] == ["2,'@x,2.0,", "1,'=1+1,-1.0,"]
