from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from shiftcal import AdaptiveClassifier
from shiftcal.faces.cli import main
from shiftcal.runs import scoring
from shiftcal.runs.evaluation import predict_domain

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3)).astype(np.float32)
FRAME = pd.DataFrame(
    {
        "width": X[:, 0],
        # Texts in the source; the first part of the target has numbers alone.
        "code": np.where(np.arange(60) < 20, "7", RNG.choice(["7", "b"], 60)),
        "note": [f"{number:03}" for number in range(60)],
    }
)
LABELS = np.where(X[:, 0] > 0, "=up", "down")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    for name, rows in (("features", X), ("table", FRAME[["width", "code"]])):
        AdaptiveClassifier("source-only", epochs=1).fit(rows, LABELS).save(folder / name)
    return folder


@pytest.fixture(autouse=True)
def _place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", X)
    FRAME.to_csv("x.csv", index=False)
    FRAME.to_parquet("x.parquet", index=False)


def predict(run: Path, data: str, out: str) -> None:
    assert main(["predict", str(run), "--data", data, "--out", out]) == 0


def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scoring, "ROWS_OF_A_PART", 16)
    monkeypatch.setattr(scoring, "LARGE_TABLE", 1)


@pytest.mark.filterwarnings("ignore::shiftcal.core.errors.ShiftcalWarning")
@pytest.mark.parametrize("data", ["x.npy", "x.csv", "x.parquet"])
def test_parts_make_the_same_table(data: str, runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = runs / ("features" if data == "x.npy" else "table")
    predict(run, data, "whole.csv")
    predict(run, data, "whole.parquet")
    small_parts(monkeypatch)
    predict(run, data, "parts.csv")
    predict(run, data, "parts.parquet")
    whole, parts = (pd.read_csv(name, dtype={"note": str}) for name in ("whole.csv", "parts.csv"))
    pd.testing.assert_frame_equal(parts, whole, check_exact=False, rtol=1e-6)
    pd.testing.assert_frame_equal(pd.read_parquet("parts.parquet"), pd.read_parquet("whole.parquet"), rtol=1e-6)
    assert not list(Path().glob("*.parts"))


def test_a_killed_command_goes_on_where_it_was(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small_parts(monkeypatch)
    predict(runs / "features", "x.npy", "undisturbed.csv")
    asked: list[int] = []
    ask = predict_domain

    def killed_at_the_third(model: Any, domain: Any) -> Any:
        asked.append(len(domain))
        if len(asked) == 3:
            raise KeyboardInterrupt
        return ask(model, domain)

    monkeypatch.setattr(scoring, "predict_domain", killed_at_the_third)
    main(["predict", str(runs / "features"), "--data", "x.npy", "--out", "p.csv"])
    assert not Path("p.csv").exists()
    predict(runs / "features", "x.npy", "p.csv")
    assert asked == [16, 16, 16, 16, 12]
    assert Path("p.csv").read_bytes() == Path("undisturbed.csv").read_bytes()


def test_parts_of_other_data_are_not_taken(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small_parts(monkeypatch)
    left = Path("p.csv.parts")
    left.mkdir()
    for name in ("identity.json", "header.csv", "00000000.csv", "00000000.rows"):
        (left / name).write_text("7", encoding="utf-8")
    predict(runs / "features", "x.npy", "p.csv")
    assert len(pd.read_csv("p.csv")) == 60
