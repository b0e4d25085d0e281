import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from shiftcal.faces.cli import COMMANDS, labelling, main

pytestmark = pytest.mark.usefixtures("coarse_estimate")
Capture = pytest.CaptureFixture[str]
fitted_plan = labelling._plan
plans: dict[int, Any] = {}
COMMAND = ["label", "--reference", "reference.csv", "--target", "target.csv"]


@pytest.fixture(scope="module")
def tables() -> list[pd.DataFrame]:
    """Two tables with a model's score, of which the second is less often right."""
    found = []
    for seed, num_rows in ((0, 200), (1, 150)):
        rng = np.random.default_rng(seed)
        size = rng.normal(0, 3 - 2 * seed, num_rows)
        probability = 1 / (1 + np.exp(-size))
        label = (rng.random(num_rows) < probability).astype(int)
        found.append(pd.DataFrame({"size": size, "score": probability, "label": label}))
    return found


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tables: list[pd.DataFrame]) -> Path:
    monkeypatch.chdir(tmp_path)
    # The same tables and seed give the same plan.
    monkeypatch.setattr(labelling, "_plan", lambda *given: plans.get(0) or plans.setdefault(0, fitted_plan(*given)))
    tables[0].to_csv("reference.csv", index=False)
    tables[1].drop(columns="label").to_csv("target.csv", index=False)
    return tmp_path


def test_from_rows_to_label_to_the_accuracy(place: Path, tables: list[pd.DataFrame], capsys: Capture) -> None:
    assert main([*COMMAND, "--out", "rows.csv", "--budget", "60"]) == 0
    assert "60 rows to label: rows.csv" in capsys.readouterr().out
    rows = pd.read_csv("rows.csv")
    assert rows.columns.tolist() == ["shiftcal_row", "size", "score", "label"]
    target = tables[1]
    np.testing.assert_allclose(target["size"].to_numpy()[rows["shiftcal_row"] - 1], rows["size"])
    # The last ten were not labelled: the first fifty are a sample too.
    rows["label"] = target["label"].to_numpy()[rows["shiftcal_row"] - 1].astype(float)
    rows.loc[50:, "label"] = np.nan
    rows.to_csv("answers.csv", index=False)
    assert main([*COMMAND, "--answers", "answers.csv", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    truth = ((target["score"] > 0.5) == target["label"]).mean()
    assert found.keys() <= COMMANDS["label"].json.keys()
    assert found["num_labels"] == 50
    assert found["low"] < truth < found["high"]
    rows.loc[10, "label"] = np.nan
    rows.to_csv("gap.csv", index=False)
    rows.head(20).assign(label="perhaps").to_csv("unknown.csv", index=False)
    rows[::-1].to_csv("turned.csv", index=False)
    for name, message in (
        ("gap.csv", "has no label and later ones have"),
        ("unknown.csv", "label 'perhaps' is none of 0, 1"),
        ("turned.csv", "these are others"),
        ("reference.csv", "expected the column 'shiftcal_row'"),
    ):
        assert main([*COMMAND, "--answers", name]) == 2
        assert re.search(message, capsys.readouterr().err)


def test_one_of_two_files_is_needed(place: Path, capsys: Capture) -> None:
    assert main(COMMAND) == 2
    assert "either a file for the rows to label (--out) or one with labels" in capsys.readouterr().err
