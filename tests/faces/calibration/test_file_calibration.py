"""`shiftcal calibrate` on files as other programs write them."""

import gzip
import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

from shiftcal import ShiftCalibrator
from shiftcal.faces.cli import COMMANDS, main

pytestmark = pytest.mark.usefixtures("quick_estimate")

Capture = pytest.CaptureFixture[str]
CLASSES = ("cat", "dog", "hen")
GENERATOR = np.random.default_rng(0)


def inputs(num_rows: int, moved: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    labels = GENERATOR.integers(0, 3, num_rows)
    rows = 2 * np.eye(3, 5)[labels] + GENERATOR.normal(size=(num_rows, 5))
    rows[:, 4] += moved
    return rows, labels


MODEL = LogisticRegression().fit(*inputs(200))
SOURCE, SOURCE_LABELS = inputs(120)
TARGET, TARGET_LABELS = inputs(90, moved=1.0)


def table(rows: np.ndarray, labels: np.ndarray | None = None) -> pd.DataFrame:
    found = pd.DataFrame(MODEL.predict_proba(rows), columns=[f"probability_{name}" for name in CLASSES])
    found.insert(0, "id", [f"{row:03}" for row in range(len(rows))])
    found["region"] = "south, east"
    if labels is not None:
        found["label"] = np.array(CLASSES)[labels]
    return found


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    table(SOURCE, SOURCE_LABELS).to_csv("source.csv", index=False)
    table(TARGET).to_csv("target.csv", index=False)


def calibrate(capsys: Capture, line: str = "", out: str = "out.csv") -> tuple[pd.DataFrame, str, str]:
    files = "" if "--source " in line else "--source source.csv --target target.csv "
    assert main(f"calibrate {files}{line} --out {out}".split()) == 0
    said = capsys.readouterr()
    return pd.read_csv(out, dtype={"id": str}) if out.endswith("csv") else pd.DataFrame(), said.out, said.err


def probabilities(found: pd.DataFrame) -> np.ndarray:
    return np.asarray(found[[f"probability_{name}" for name in CLASSES]])


@pytest.fixture
def expected(capsys: Capture) -> np.ndarray:
    return probabilities(calibrate(capsys)[0])


def test_all_columns_come_back(capsys: Capture) -> None:
    found, printed, _ = calibrate(capsys)
    given = pd.read_csv("target.csv", dtype={"id": str})
    assert found["id"].tolist() == given["id"].tolist()
    assert found["region"].tolist() == given["region"].tolist()
    np.testing.assert_array_equal(found["given_probability_cat"], given["probability_cat"])
    np.testing.assert_allclose(probabilities(found).sum(axis=1), 1)
    assert (found["predicted_class"] == np.array(CLASSES)[MODEL.predict(TARGET)]).all()
    assert {"confidence", "density_ratio"} <= set(found)
    assert printed.endswith("90 predictions: out.csv\n")


def test_with_features_it_is_what_the_model_itself_gets(capsys: Capture) -> None:
    np.save("source.npy", SOURCE)
    np.save("target.npy", TARGET)
    found, _, _ = calibrate(capsys, "--source-features source.npy --target-features target.npy")
    calibrated = ShiftCalibrator(MODEL).fit(SOURCE, SOURCE_LABELS, TARGET)
    np.testing.assert_allclose(probabilities(found), calibrated.predict_proba(TARGET), atol=1e-5)


def spreadsheet(frame: pd.DataFrame, path: Path) -> None:
    frame.to_csv(path, index=False, sep=";", decimal=",", encoding="utf-8-sig")


def utf16(frame: pd.DataFrame, path: Path) -> None:
    frame.to_csv(path, index=False, sep="\t", encoding="utf-16")


def latin(frame: pd.DataFrame, path: Path) -> None:
    frame.assign(region="größe").to_csv(path, index=False, encoding="latin-1")


def compressed(frame: pd.DataFrame, path: Path) -> None:
    with gzip.open(path, "wt", encoding="utf-8") as stream:
        frame.to_csv(stream, index=False)


def parquet(frame: pd.DataFrame, path: Path) -> None:
    pytest.importorskip("pyarrow")
    frame.to_parquet(path)


@pytest.mark.parametrize(
    ("suffix", "write"),
    [("csv", spreadsheet), ("tsv", utf16), ("csv", latin), ("csv.gz", compressed), ("parquet", parquet)],
)
def test_formats_of_other_programs(
    suffix: str, write: Callable[[pd.DataFrame, Path], None], expected: np.ndarray, capsys: Capture
) -> None:
    write(table(SOURCE, SOURCE_LABELS), Path(f"s.{suffix}"))
    write(table(TARGET), Path(f"t.{suffix}"))
    found, _, _ = calibrate(capsys, f"--source s.{suffix} --target t.{suffix}")
    np.testing.assert_allclose(probabilities(found), expected, atol=1e-12)


def renamed(frame: pd.DataFrame, pattern: str) -> pd.DataFrame:
    names = {f"probability_{name}": pattern.format(name) for name in CLASSES}
    return frame.rename(columns=names)


def scaled(frame: pd.DataFrame, change: Callable[[np.ndarray], np.ndarray], pattern: str = "p_{}") -> pd.DataFrame:
    own = [f"probability_{name}" for name in CLASSES]
    return renamed(frame.assign(**dict(zip(own, change(frame[own].to_numpy()).T, strict=True))), pattern)


@pytest.mark.parametrize(
    ("change", "tolerance", "words"),
    [
        (lambda frame: frame[frame.columns[::-1]], 1e-12, ""),
        (
            lambda frame: renamed(frame, "p({})"),
            1e-12,
            "columns p(cat), p(dog), p(hen) taken for classes cat, dog, hen",
        ),
        (
            lambda frame: renamed(frame, "{}").rename(columns={"label": "y_true"}),
            1e-12,
            "column y_true taken for labels",
        ),
        (lambda frame: scaled(frame, lambda p: 100 * p), 1e-12, "numbers taken for percent"),
        (lambda frame: scaled(frame, lambda p: np.log(p) + 1), 1e-3, "numbers taken for logits"),
        (lambda frame: scaled(frame, lambda p: p.round(2)), 0.1, "rounded, it seems"),
    ],
    ids=["order", "names", "labels", "percent", "logits", "two digits"],
)
def test_columns_are_guessed_and_the_guess_is_said(
    change: Callable[[pd.DataFrame], pd.DataFrame],
    tolerance: float,
    words: str,
    expected: np.ndarray,
    capsys: Capture,
) -> None:
    change(table(SOURCE, SOURCE_LABELS)).to_csv("s.csv", index=False)
    change(table(TARGET)).to_csv("t.csv", index=False)
    found, _, said = calibrate(capsys, "--source s.csv --target t.csv")
    np.testing.assert_allclose(probabilities(found), expected, atol=tolerance)
    assert words in said
    assert bool(said) == bool(words)


def test_columns_by_option(expected: np.ndarray, capsys: Capture) -> None:
    for frame, path in ((table(SOURCE, SOURCE_LABELS), "s.csv"), (table(TARGET), "t.csv")):
        names = {"probability_cat": "x1", "probability_dog": "x2", "probability_hen": "x3", "label": "z"}
        frame.rename(columns=names).to_csv(path, index=False)
    line = "--source s.csv --target t.csv --label z --columns cat=x1,dog=x2,hen=x3"
    np.testing.assert_allclose(probabilities(calibrate(capsys, line)[0]), expected)
    assert main(["calibrate", "--source", "s.csv", "--target", "t.csv", "--out", "o.csv"]) == 2
    assert "--columns CLASS=COLUMN" in capsys.readouterr().err


@pytest.mark.parametrize("line", ["", "--columns yes=score --label bought"])
def test_a_single_score_of_a_binary_model(line: str, capsys: Capture) -> None:
    chance = GENERATOR.uniform(0.05, 0.95, 150)
    bought = np.where(GENERATOR.uniform(size=150) < chance, "yes", "no")
    name = "bought" if line else "label"
    pd.DataFrame({"score": chance, name: bought}).to_csv("s.csv", index=False)
    pd.DataFrame({"customer": range(150), "score": chance}).to_csv("t.csv", index=False)
    found, _, said = calibrate(capsys, f"--source s.csv --target t.csv {line}")
    assert found["customer"].tolist() == list(range(150))
    assert np.corrcoef(found["probability_yes"], chance)[0, 1] > 0.99
    assert bool(line) != ("the score of class 'yes'" in said)


def test_json_report_and_metrics_of_labelled_targets(capsys: Capture) -> None:
    table(TARGET, TARGET_LABELS).to_csv("target.csv", index=False)
    _, printed, _ = calibrate(capsys, "--json --report page.html")
    found = json.loads(printed)
    assert found.keys() == COMMANDS["calibrate"].json.keys()
    assert found["num_rows"] == 90
    assert found["verdict"].startswith("Accuracy to be expected")
    assert set(found["metrics_by_labels"]) == {"target as given", "target calibrated"}
    page = Path("page.html").read_text(encoding="utf-8")
    assert page.index('class="verdict"') < page.index("Expected on the target") < page.index("<img")
    assert "http" not in page.replace("http-equiv", "").replace("http://www.w3.org", "")
    _, printed, _ = calibrate(capsys)
    assert printed.startswith("Accuracy to be expected")
    assert "target calibrated:" in printed


@pytest.mark.parametrize("out", ["out.csv.gz", "out.parquet", "out.npz"])
def test_other_formats_out(out: str, expected: np.ndarray, capsys: Capture) -> None:
    calibrate(capsys, out=out)
    if out.endswith("npz"):
        with np.load(out) as arrays:
            assert arrays["region"][0] == "south, east"
            np.testing.assert_allclose(arrays["probability_cat"], expected[:, 0])
        return
    found = pd.read_parquet(out) if out.endswith("parquet") else pd.read_csv(out)
    np.testing.assert_allclose(probabilities(found), expected)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("--source source.csv --target target.csv --out target.csv", "is an input of this command"),
        ("--source source.csv --target target.csv --out out.doc", "ends in"),
        ("--source target.csv --target target.csv --out out.csv", "a column 'label'"),
        ("--source source.csv --target other.csv --out out.csv", "expected a column 'probability_hen'"),
        ("--source source.csv --target ragged.csv --out out.csv", "not a table|fewer cells"),
        ("--source source.csv --target absent.csv --out out.csv", "no predictions at"),
        ("--source source.csv --target words.csv --out out.csv", "something else than numbers"),
        ("--source source.csv --target wrong.csv --out out.csv", "row 2 is"),
    ],
)
def test_what_does_not_fit_is_named_and_nothing_is_left_behind(line: str, words: str, capsys: Capture) -> None:
    header = "probability_cat,probability_dog,probability_hen\n"
    Path("other.csv").write_text("probability_cat,probability_dog\n0.5,0.5\n")
    Path("ragged.csv").write_text(f"{header}0.5,0.5,0,1,2\n0.5,0.5\n")
    Path("words.csv").write_text(f"{header}a,b,c\n")
    Path("wrong.csv").write_text(f"{header}0.5,0.5,0\n0.5,0.5,0.5\n")
    before = sorted(Path().iterdir())
    assert main(["calibrate", *line.split()]) == 2
    assert re.search(words, capsys.readouterr().err)
    assert sorted(Path().iterdir()) == before
