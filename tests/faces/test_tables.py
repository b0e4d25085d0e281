"""Tables of every make through both faces: `AdaptiveClassifier`, and from two files to a report by one command."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy import sparse
from sklearn.datasets import load_wine

from shiftcal import AdaptiveClassifier
from shiftcal.core.errors import InvalidInputError, ShiftcalWarning
from shiftcal.data.catalog.roots import data_roots
from shiftcal.faces.cli import main
from shiftcal.runs.folder import RunFolder

pytestmark = pytest.mark.usefixtures("coarse_estimate")
Capture = pytest.CaptureFixture[str]


def wine() -> tuple[Any, Any]:
    """Source and target: scikit-learn's wines, with a category, a truth value, a date, gaps and an outlier."""
    frame = load_wine(as_frame=True).frame.rename(columns={"target": "grower"})
    frame["grower"] = frame["grower"].map({0: "Abel", 1: "Bär", 2: "Cox"})
    frame["colour"] = np.where(frame["color_intensity"] > 4.5, "dark", "light")
    frame["strong"] = frame["alcohol"] > 13
    frame["bottled"] = pd.date_range("2020-01-01", periods=len(frame), freq="3D")
    frame = frame.sample(frac=1, random_state=0, ignore_index=True)
    frame.loc[frame.index % 7 == 0, "ash"] = np.nan
    frame.loc[3, "magnesium"] = 1e6
    frame.insert(0, "bottle", [f"b{number}" for number in range(len(frame))])
    return frame.iloc[:110].reset_index(drop=True), frame.iloc[110:].reset_index(drop=True)


SOURCE, TARGET = wine()
NO_INPUTS = ["bottle", "grower"]


def small(**changes: Any) -> AdaptiveClassifier:
    return AdaptiveClassifier(**{"method": "source-only", "epochs": 12, **changes})


class TestClassifier:
    X, y, X_target = SOURCE.drop(columns=NO_INPUTS), SOURCE["grower"], TARGET.drop(columns=NO_INPUTS)

    def test_it_learns_names_its_columns_and_finds_them(self, tmp_path: Path) -> None:
        fitted = small(epochs=60).fit(pa.Table.from_pandas(self.X), self.y.to_frame(), self.X_target)
        assert (fitted.predict(self.X_target) == TARGET["grower"].to_numpy()).mean() > 0.9
        assert fitted.feature_names_in_.tolist() == list(self.X.columns)
        assert fitted.n_features_in_ == self.X.shape[1]
        assert fitted.columns_["colour"] == "2 categories"
        expected = fitted.predict_proba(self.X_target)
        np.testing.assert_array_equal(fitted.predict_proba(self.X_target[self.X.columns[::-1]]), expected)
        fitted.save(tmp_path / "run")
        loaded = AdaptiveClassifier.load(tmp_path / "run")
        np.testing.assert_array_equal(loaded.predict_proba(self.X_target), expected)
        assert loaded.feature_names_in_.tolist() == list(self.X.columns)
        with pytest.warns(ShiftcalWarning, match="ignored: 'price'"):
            loaded.predict(self.X_target.assign(price=3))
        with pytest.raises(InvalidInputError, match="columns of the source are missing: 'ash'"):
            loaded.predict(self.X_target.drop(columns="ash"))
        unknown = self.X_target.assign(colour="green", ash=np.nan)
        with pytest.warns(ShiftcalWarning, match=r"100% of column 'colour' are values .* such as 'green'"):
            assert np.isfinite(loaded.predict_proba(unknown)).all()

    def test_arrays_with_gaps(self) -> None:
        whole = self.X[["alcohol", "hue", "flavanoids"]].to_numpy()
        gaps = np.where(np.arange(len(whole))[:, None] % 5 == np.arange(3), np.nan, whole)
        for source, target in ((gaps, None), (whole, gaps)):
            fitted = small(epochs=60).fit(source, self.y, target)
            assert fitted.score(gaps, self.y) > 0.8
            assert not hasattr(fitted, "feature_names_in_")

    def test_sparse_matrices(self, tmp_path: Path) -> None:
        """Hashed words: the classes have words of their own."""
        generator = np.random.default_rng(0)
        y = np.arange(120) % 2
        columns = generator.integers(0, 700, (120, 30)) + 700 * y[:, None] * (generator.random((120, 30)) < 0.7)
        entries = (np.ones(3600), (np.repeat(np.arange(120), 30), 700 * columns.ravel()))
        X = sparse.csr_matrix(entries, shape=(120, 2**20))
        fitted = small(epochs=30).fit(X[:80], y[:80])
        assert fitted.score(X[80:], y[80:]) > 0.9
        assert "of 1048576 columns are used" in fitted.columns_["sparse matrix"]
        fitted.save(tmp_path / "run")
        loaded = AdaptiveClassifier.load(tmp_path / "run")
        np.testing.assert_array_equal(loaded.predict_proba(X[80:].tocsc()), fitted.predict_proba(X[80:]))
        assert loaded.n_features_in_ == 2**20

    def test_mixed_labels_in_an_object_array(self) -> None:
        y = np.where(self.y == "Abel", 1, self.y.to_numpy(dtype=object))
        assert set(small(epochs=1).fit(self.X, y).classes_.tolist()) == {1, "Bär", "Cox"}
        with pytest.raises(InvalidInputError, match="expected one column of labels"):
            small().fit(self.X, self.X[["ash", "hue"]])

    def test_weights_move_predictions(self) -> None:
        """One overlapping boundary: the class that is drawn more often is predicted more often."""
        X = np.random.default_rng(0).normal(size=(400, 1)) + 0.5 * (np.arange(400) % 4 == 0)[:, None]
        y = np.where(np.arange(400) % 4 == 0, "rare", "usual")
        shares = [
            (small(class_weight=classes).fit(X, y, sample_weight=rows).predict(X) == "rare").mean()
            for classes, rows in (
                (None, None),
                ("balanced", None),
                ({"rare": 3.0}, None),
                (None, 1 + 8 * (y == "rare")),
            )
        ]
        assert shares[0] < 0.2 < shares[1] < 0.8 < shares[3]
        assert abs(shares[1] - shares[2]) < 0.1


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Two tables, one of them as Excel writes it in Germany, and a run on them."""
    folder = tmp_path_factory.mktemp("tables")
    SOURCE.assign(bottled=SOURCE["bottled"].dt.strftime("%d.%m.%Y")).to_csv(
        folder / "train.csv", sep=";", decimal=",", index=False, encoding="utf-8-sig"
    )
    TARGET.drop(columns="grower").to_parquet(folder / "new.parquet")
    TARGET.to_csv(folder / "labelled.csv.gz", index=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("shiftcal.runs.reporting.figure_sections.as_data_uri", lambda draw, info: "data:,")
        patch.chdir(folder)
        command = "fit --source train.csv --target new.parquet --label grower --id bottle --ignore hue --out run"
        assert main([*command.split(), "--set", "epochs=30"]) == 0
        yield folder


class TestCommandLine:
    def test_the_run_says_what_was_done_with_which_column(self, place: Path) -> None:
        card = RunFolder(place / "run").read_card()
        assert card["columns_used"] == "Columns used: 12 of numbers, 2 of categories, 1 of dates."
        assert card["columns"]["bottled"].startswith("dates")
        assert "Columns used" in (place / "run" / "report.html").read_text(encoding="utf-8")
        config = RunFolder(place / "run").read_config()
        assert (config["label"], config["id"], config["ignore"]) == ("grower", "bottle", ["hue"])

    def test_a_finished_run_is_known_again_by_its_columns(self, place: Path, capsys: Capture) -> None:
        command = "fit --source train.csv --target new.parquet --label grower --id bottle --ignore hue --out run"
        assert main([*command.split(), "--set", "epochs=30", "--resume"]) == 0
        assert "Columns used: 12 of numbers" in capsys.readouterr().out

    def test_compare_takes_the_same_options(self, place: Path, capsys: Capture) -> None:
        columns = "--label grower --id bottle --columns alcohol,ash,colour"
        command = (
            f"compare --tasks train.csv->labelled.csv.gz --methods source-only --seeds 1 --out compared {columns}"
        )
        for _ in range(2):  # what is finished is known again
            assert main([*command.split(), "--set", "epochs=1", "--json"]) == 0
            assert len(json.loads(capsys.readouterr().out)["table"]) == 1
        cell = RunFolder(place / "compared/cells/train.csv--labelled.csv.gz/source-only/seed-0")
        assert set(cell.read_card()["columns"]) == {"alcohol", "ash", "colour"}

    @pytest.mark.filterwarnings("default::shiftcal.core.errors.ShiftcalWarning")
    def test_predict_gives_every_column_back(self, place: Path, capsys: Capture) -> None:
        for out in ("out.csv", "out.parquet"):
            assert main(f"predict run --data new.parquet --out {out}".split()) == 0
        written = pd.read_csv("out.csv")
        own = ["predicted_class", "confidence", *(f"probability_{name}" for name in ("Abel", "Bär", "Cox"))]
        assert list(written.columns) == [*TARGET.columns.drop("grower"), *own, "density_ratio"]
        unlabelled = TARGET.drop(columns="grower")
        pd.testing.assert_frame_equal(pd.read_parquet("out.parquet")[unlabelled.columns], unlabelled)
        assert (written["predicted_class"] == TARGET["grower"]).mean() > 0.85
        assert (written["bottle"] == TARGET["bottle"]).all()
        assert main(["predict", "run", "--data", "out.csv", "--out", "again.csv"]) == 0
        assert "shiftcal: out.csv: columns that the source does not have are ignored:" in capsys.readouterr().err
        again = pd.read_csv("again.csv")
        assert (again["shiftcal_predicted_class"] == again["predicted_class"]).all()

    def test_texts_come_back_as_they_were_written(self, place: Path, capsys: Capture) -> None:
        """Also a name of a row that could be a number, and what stands for a missing value."""
        table = TARGET.drop(columns="grower").assign(bottle=[f"{n:04}" for n in range(len(TARGET))])
        table["ash"] = table["ash"].astype(object).fillna("?")
        table.to_csv("odd.csv", index=False)
        assert main("predict run --data unlabelled:odd.csv --out out.csv".split()) == 0  # noqa: SIM905
        odd, out = (Path(name).read_text(encoding="utf-8").splitlines() for name in ("odd.csv", "out.csv"))
        assert all(after.startswith(f"{before},") for before, after in zip(odd, out, strict=True))

    def test_evaluate_and_estimate(self, place: Path, capsys: Capture) -> None:
        TARGET.rename(columns={"grower": "truth"}).to_feather("renamed.feather")
        numbers = []
        for data in ("labelled.csv.gz", "renamed.feather --label truth"):
            assert main(f"evaluate run --json --data {data}".split()) == 0
            numbers.append(json.loads(capsys.readouterr().out)["accuracy"])
        assert numbers[0] == numbers[1] > 0.85
        assert main(["estimate", "run", "--json", "--data", "new.parquet"]) == 0
        assert 0 < json.loads(capsys.readouterr().out)["metrics"]["accuracy"]["value"] <= 1

    def test_ids_are_in_the_predictions_of_the_run(self, place: Path) -> None:
        with np.load("run/predictions/target.npz") as arrays:
            assert arrays["ids"].tolist() == TARGET["bottle"].tolist()
            assert "labels" not in arrays

    @pytest.mark.parametrize(
        ("command", "message"),
        [
            ("fit --source train.csv --target new.parquet --out no", "say which column has them (--label COLUMN)"),
            ("fit --source train.csv --label growr --out no", "Did you mean 'grower'"),
            ("fit --source train.csv --label grower --target digits/uci --out no", "expected a table"),
            ("fit --source digits/uci --target new.parquet --out no", "expected features or images"),
            ("fit --source train.csv --label grower --target few.csv --out no", "columns of the source are missing"),
            ("predict run --data digits/uci --out no.csv", "expected a table, as the source has, got images"),
            ("evaluate run --data new.parquet", "metrics need labels"),
            ("evaluate run --data new.parquet --label truth", "unknown column of 'new.parquet' 'truth'"),
        ],
    )
    def test_errors(self, command: str, message: str, place: Path, capsys: Capture) -> None:
        (place / "few.csv").write_text("alcohol,ash\n1,2\n")
        capsys.readouterr()
        assert main(command.split()) == 2
        error = capsys.readouterr().err
        assert message in error
        assert not Path("no").exists()


def stream(name: str) -> Path:
    path = data_roots()[0] / "streams" / f"{name}.parquet"
    if not path.is_file():
        pytest.skip("the monitored tables are not here")
    return path


@pytest.mark.parametrize(("name", "label"), [("car_loan", "repaid"), ("credit_card", "y_true")])
def test_real_tables(name: str, label: str) -> None:
    source, target = (pd.read_parquet(stream(f"{name}_{part}")).head(1500) for part in ("reference", "analysis"))
    X, X_target = (frame.drop(columns=[label]) for frame in (source, target[source.columns]))
    fitted = AdaptiveClassifier(epochs=3).fit(X, source[label], X_target)
    assert fitted.score(X_target, target[label]) > 0.5
    assert 0 < fitted.estimated_accuracy_ < 1


def test_a_unit_error_is_named_by_fit_and_by_estimate() -> None:
    random = np.random.default_rng(0)
    frame = pd.DataFrame({"hours": random.normal(40, 5, 300), "age": random.normal(40, 10, 300)})
    labels = (frame["age"] > 40).astype(int)
    in_minutes = frame.assign(hours=60 * frame["hours"])
    clf = AdaptiveClassifier(epochs=2).fit(frame, labels, in_minutes)
    assert clf.verdict_.startswith("LOOK AT THE INPUTS FIRST: 1 of 2 columns of numbers")
    assert "'hours'" in clf.verdict_
    plain = AdaptiveClassifier(epochs=2).fit(frame, labels, frame)
    assert "LOOK AT" not in plain.verdict_
    found = plain.estimate(in_minutes[["age", "hours"]])
    assert "'hours': " in found.verdict
    assert found.interval is not None
    assert found.interval[0] < 0.1
