import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from shiftcal.faces.cli import COMMANDS, main
from shiftcal.faces.monitoring.monitor import Monitor
from shiftcal.target.diagnosis import Diagnosis, PriorShift
from shiftcal.target.performance import Estimate

pytestmark = pytest.mark.usefixtures("coarse_estimate")
Capture = pytest.CaptureFixture[str]
COMMAND = ["monitor", "--reference", "reference.csv", "--label", "paid"]


def table(num_rows: int, seed: int, moved: float = 0.0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    size = rng.normal(0, 2, num_rows)
    probability = 1 / (1 + np.exp(-size))
    return pd.DataFrame(
        {
            "id": np.arange(num_rows),
            "day": pd.date_range("2024-01-01", periods=num_rows, freq="h").astype(str),
            "size": size + moved,
            "colour": rng.choice(["red", "blue"], num_rows),
            "score": probability.round(4),
            "paid": (rng.random(num_rows) < probability).astype(int),
        }
    )


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A reference and three days, of which the last has shifted; the estimate itself is tested with `Monitor`."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Monitor, "_estimate", _reference_accuracy)
    table(300, 0).to_csv("reference.csv", index=False)
    days = tmp_path / "days"
    days.mkdir()
    table(100, 1).to_csv(days / "2024-01-01.csv", index=False)
    table(100, 2).drop(columns="paid").to_parquet(days / "2024-01-02.parquet")
    table(100, 3, moved=4.0).to_csv(days / "2024-01-03.csv.gz", index=False)
    return tmp_path


def _reference_accuracy(monitor: Monitor, logits: Any, structure: Any) -> Estimate:
    prior = PriorShift((0.5, 0.5), 0.0, 0.0, 0.5, 0.5, 1.0, explains=False)
    found = Diagnosis(monitor.reference_accuracy_, 0.0, reach=(0.1, 0.1), prior_shift=prior)
    return Estimate(found, {}, (), tuple(monitor.classes_.tolist()), len(logits))


def test_a_line_for_each_file_and_an_exit_code_for_the_alarm(place: Path, capsys: Capture) -> None:
    assert main([*COMMAND, "--batches", "days", "--ignore", "day"]) == 1
    out, told = capsys.readouterr()
    assert [line.split(":")[0] for line in out.splitlines()] == [
        "2024-01-01.csv",
        "2024-01-02.parquet",
        "2024-01-03.csv.gz",
        "3 new batches, 1 with an alarm; 0 seen before; accuracy on the reference",
    ]
    assert "true" in out.splitlines()[0]
    assert "true" not in out.splitlines()[1]
    assert "ALARM: 1 of 4 columns drifted: size" in out.splitlines()[2]
    assert "probabilities: score (class 1); label: paid; features: size, colour; left out: id, day" in told


def test_seen_batches_are_not_done_again_and_half_a_line_is_cut_off(place: Path, capsys: Capture) -> None:
    command = [*COMMAND, "--batches", "days", "--ignore", "day", "--state", "state.jsonl"]
    days = sorted((place / "days").iterdir())
    days[2].rename(place / "later.csv.gz")
    assert main(command) == 0
    whole = Path("state.jsonl").read_text()
    Path("state.jsonl").write_text(whole[:-20])
    (place / "later.csv.gz").rename(days[2])
    capsys.readouterr()
    assert main(command) == 1
    assert "2 new batches, 1 with an alarm; 1 seen before" in capsys.readouterr().out
    # The newest batch still has its alarm, were the first word of it lost.
    assert main([*command, "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found.keys() == COMMANDS["monitor"].json.keys()
    assert found["batches"] == []
    assert Path("state.jsonl").read_text().startswith(whole[:-20].rsplit("\n", 1)[0])
    assert len(Path("state.jsonl").read_text().splitlines()) == 4
    # A file that has grown is another batch of the same name.
    table(150, 1).to_csv(days[0], index=False)
    main([*command, "--json"])
    assert [batch["time"] for batch in json.loads(capsys.readouterr().out)["batches"]] == ["2024-01-01.csv"]


def test_one_table_by_time_or_by_rows(place: Path, capsys: Capture) -> None:
    stream = table(100, 1)
    stream.to_csv("stream.csv", index=False)
    expected = {
        ("--time", "day", "--every", "day"): ["2024-01-01", "2024-01-02", "2024-01-03", "2024-01-04"],
        ("--rows", "40", "--ignore", "day"): ["stream rows 1-40", "stream rows 41-80"],
        ("--time", "colour"): ["blue", "red"],
    }
    for split, names in expected.items():
        main([*COMMAND, "--batches", "stream.csv", *split, "--json"])
        out, told = capsys.readouterr()
        found = json.loads(out)["batches"]
        assert [batch["time"] for batch in found] == names
        assert sum(batch["num_rows"] for batch in found) == (
            80 if "--rows" in split else 96 if "--every" in split else 100
        )
        assert ("2024-01-05 is left out: 4 rows are too few" in told) == ("--every" in split)


def test_the_page_stands_alone(place: Path, capsys: Capture) -> None:
    main([*COMMAND, "--batches", "days", "--ignore", "day", "--report", "page.html"])
    page = Path("page.html").read_text(encoding="utf-8")
    assert "Alarm in the newest batch" in page
    assert "1 of 3 batches raised an alarm" in page
    assert page.count("data:image/svg+xml") == 2
    assert 'src="http' not in page
    assert "report: page.html" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--batches", "nowhere.csv"], "no table at 'nowhere.csv'"),
        (["--batches", "."], "state.jsonl' is of another reference"),
        (["--batches", "days", "--label", "payed"], "the reference has no column 'payed'"),
        (["--batches", "days", "--every", "day"], "expected the column that has the time"),
        (["--batches", "days", "--rows", "5", "--time", "day"], "by time .* or by rows .*, got both"),
        (["--batches", "days", "--watch", "drifts"], "Did you mean 'drift'"),
        (["--batches", "days", "--probabilities", "colour"], "column 'colour' holds something else than numbers"),
        (["--batches", "notes.txt"], "notes.txt"),
        (["--batches", "days", "--time", "size", "--every", "day", "--features", "ghost"], "no column 'ghost'"),
        (["--batches", "days", "--time", "hour"], "has no column 'hour'"),
    ],
)
def test_what_does_not_fit_is_said(place: Path, capsys: Capture, options: list[str], message: str) -> None:
    Path("notes.txt").write_text("no table")
    if "." in options:
        table(50, 9).to_csv("other.csv", index=False)
        main([*COMMAND[:2], "other.csv", "--label", "paid", "--batches", "other.csv", "--state", "state.jsonl"])
        options = [*options, "--state", "state.jsonl"]
    assert main([*COMMAND, *options]) == 2
    error = capsys.readouterr().err
    assert re.search(message, error), error
