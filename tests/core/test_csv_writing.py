import csv
from pathlib import Path

import pandas as pd

from shiftcal.core.csv_writing import with_safe_text, write_csv

FORMULAS = [
    "=1+1",
    "+cmd|' /C calc'!A0",
    "-2+3",
    "@SUM(A1)",
    "\t=1",
    "\r=1",
    "\n=1",
    "＝1",
    '=HYPERLINK("x")',
    "-",
    "+-1",
]
HARMLESS = ["a=1", "", "'=1", " =1", "größe", "a,b", 'a"b', "a\nb", "-1", "+1e-3", "-inf"]


def test_formulas_become_text_and_everything_else_stays(tmp_path: Path) -> None:
    numbers = [-1.5, 7, float("-inf"), True]
    write_csv(tmp_path / "t.csv", ["name", "=name"], [[cell, -0.1] for cell in (*FORMULAS, *HARMLESS, *numbers)])
    with (tmp_path / "t.csv").open(newline="", encoding="utf-8") as stream:
        head, *rows = list(csv.reader(stream))
    assert head == ["name", "'=name"]
    written = [cell for cell, _ in rows]
    assert written == [f"'{cell}" for cell in FORMULAS] + HARMLESS + [str(number) for number in numbers]
    assert {number for _, number in rows} == {"-0.1"}


def test_the_same_holds_of_frames() -> None:
    cells = [*FORMULAS, *HARMLESS]
    numbers = [-float(number) for number in range(len(cells))]
    table = pd.DataFrame({"=a": cells, "kind": pd.Categorical(cells), "number": numbers, "none": None})
    safe = with_safe_text(table)
    expected = [f"'{cell}" for cell in FORMULAS] + HARMLESS
    assert list(safe.columns) == ["'=a", "kind", "number", "none"]
    assert safe["'=a"].tolist() == safe["kind"].tolist() == expected
    assert safe["number"].tolist() == numbers
    assert safe["none"].isna().all()
    assert table["=a"].tolist() == cells
