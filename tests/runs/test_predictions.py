from __future__ import annotations

import csv
import dataclasses
import sys
from collections.abc import Hashable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from shiftcal.core.array_reading import open_own_file, write_own_file
from shiftcal.core.errors import DataUnavailableError, InvalidInputError, MissingDependencyError, OutputError
from shiftcal.runs.prediction_columns import ColumnChoice, find_columns
from shiftcal.runs.prediction_tables import check_export_path, export_predictions, first_rows
from shiftcal.runs.predictions import ExampleImages, Predictions, load_predictions, plain_classes, save_predictions

# Thirds have no short decimal form: a round trip through text has to keep them all the same.
PROBABILITIES = np.array([[1 / 3, 2 / 3], [0.9, 0.1], [0.5, 0.5]])


def make_predictions(
    classes: tuple[Hashable, ...] = ("cat", "dog"), *, labels: bool = False, examples: bool = False
) -> Predictions:
    return Predictions(
        ids=np.array(["cat/1.png", "2", "größe, 3"]),
        probabilities=PROBABILITIES,
        density_ratio=np.array([0.1, 1.0, 7.7]),
        classes=classes,
        labels=np.array([1, 0, 1], dtype=np.int64) if labels else None,
        examples=ExampleImages(np.array([0, 2]), np.arange(24, dtype=np.uint8).reshape(2, 2, 2, 3))
        if examples
        else None,
    )


def test_predicted_class_and_confidence_follow_from_the_probabilities() -> None:
    predictions = make_predictions()
    assert len(predictions) == 3
    assert predictions.predicted.tolist() == [1, 0, 0]
    assert predictions.confidence.tolist() == [2 / 3, 0.9, 0.5]


@pytest.mark.parametrize("labels", [False, True])
@pytest.mark.parametrize("examples", [False, True])
def test_round_trip_loses_nothing(tmp_path: Path, labels: bool, examples: bool) -> None:
    written = make_predictions(labels=labels, examples=examples)
    save_predictions(written, tmp_path / "new" / "target.npz")
    read = load_predictions(tmp_path / "new" / "target.npz")
    assert read.classes == written.classes
    for name in ("ids", "probabilities", "density_ratio"):
        np.testing.assert_array_equal(getattr(read, name), getattr(written, name), strict=True)
    assert (read.labels is None) is not labels
    assert (read.examples is None) is not examples
    if labels:
        np.testing.assert_array_equal(read.labels, [1, 0, 1])
    if read.examples is not None and written.examples is not None:
        np.testing.assert_array_equal(read.examples.rows, written.examples.rows, strict=True)
        np.testing.assert_array_equal(read.examples.images, written.examples.images, strict=True)


@pytest.mark.parametrize(
    ("classes", "expected"),
    [
        (("cat", "dög"), ("cat", "dög")),
        ((3, 5), (3, 5)),
        ((0.5, 1.5), (0.5, 1.5)),
        ((False, True), (False, True)),
        ((np.int64(3), np.str_("a")), (3, "a")),
        ((1, "a"), (1, "a")),
        (((1, 2), (3, 4)), ("(1, 2)", "(3, 4)")),
    ],
)
def test_class_labels_become_plain_values(
    tmp_path: Path, classes: tuple[Hashable, ...], expected: tuple[Hashable, ...]
) -> None:
    assert tuple(plain_classes(classes)) == expected
    save_predictions(make_predictions(classes), tmp_path / "p.npz")
    read = load_predictions(tmp_path / "p.npz").classes
    assert read == expected
    assert [type(label) for label in read] == [type(label) for label in expected]


def test_csv_holds_every_number_exactly(tmp_path: Path) -> None:
    predictions = make_predictions()
    export_predictions(predictions, tmp_path / "table.csv")
    with (tmp_path / "table.csv").open(newline="", encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    assert list(rows[0]) == [
        "id",
        "predicted_class",
        "confidence",
        "probability_cat",
        "probability_dog",
        "density_ratio",
    ]
    assert [row["id"] for row in rows] == ["cat/1.png", "2", "größe, 3"]
    assert [row["predicted_class"] for row in rows] == ["dog", "cat", "cat"]
    read = [[float(row["probability_cat"]), float(row["probability_dog"])] for row in rows]
    assert read == PROBABILITIES.tolist()
    assert [float(row["confidence"]) for row in rows] == predictions.confidence.tolist()
    assert [float(row["density_ratio"]) for row in rows] == [0.1, 1.0, 7.7]


def test_npz_holds_arrays_without_pickles(tmp_path: Path) -> None:
    export_predictions(make_predictions((10, 20)), tmp_path / "table.npz")
    with np.load(tmp_path / "table.npz", allow_pickle=False) as arrays:
        assert sorted(arrays) == ["classes", "density_ratio", "id", "predicted_class", "probabilities"]
        assert arrays["predicted_class"].tolist() == [20, 10, 10]
        assert arrays["classes"].tolist() == [10, 20]
        assert arrays["id"].tolist() == ["cat/1.png", "2", "größe, 3"]
        np.testing.assert_array_equal(arrays["probabilities"], PROBABILITIES, strict=True)
        assert arrays["density_ratio"].tolist() == [0.1, 1.0, 7.7]


def test_parquet_holds_typed_columns(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    export_predictions(make_predictions(), tmp_path / "table.parquet")
    columns = parquet.read_table(tmp_path / "table.parquet").to_pydict()
    assert columns == {
        "id": ["cat/1.png", "2", "größe, 3"],
        "predicted_class": ["dog", "cat", "cat"],
        "confidence": [2 / 3, 0.9, 0.5],
        "probability_cat": PROBABILITIES[:, 0].tolist(),
        "probability_dog": PROBABILITIES[:, 1].tolist(),
        "density_ratio": [0.1, 1.0, 7.7],
    }


def test_parquet_without_pyarrow_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingDependencyError, match=r"'pyarrow'.*pip install 'shiftcal\[tables\]'"):
        export_predictions(make_predictions(), tmp_path / "table.parquet")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["table.xlsx", "table", "table.csv.gz"])
def test_the_suffix_must_name_a_format(tmp_path: Path, name: str) -> None:
    message = rf"ends in \.csv or \.npz or \.parquet, got '{name}'"
    with pytest.raises(InvalidInputError, match=message):
        check_export_path(tmp_path / name)
    with pytest.raises(InvalidInputError, match=message):
        export_predictions(make_predictions(), tmp_path / name)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("suffix", [".csv", ".npz"])
def test_exports_that_can_not_be_written_say_so(tmp_path: Path, suffix: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match="can't write"):
        export_predictions(make_predictions(), tmp_path / "file" / f"table{suffix}")


def test_absent_predictions(tmp_path: Path) -> None:
    with pytest.raises(DataUnavailableError, match=r"no predictions at '.*target\.npz'"):
        load_predictions(tmp_path / "target.npz")


def test_wherever_a_file_is_cut_off_or_altered_it_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "p.npz"
    save_predictions(make_predictions(labels=True), path)
    whole = path.read_bytes()
    damaged = [whole[:length] for length in range(0, len(whole), 37)]
    damaged += [whole[:at] + bytes([whole[at] ^ (1 << at % 8)]) + whole[at + 1 :] for at in range(0, len(whole), 3)]
    for content in damaged:
        path.write_bytes(content)
        with pytest.raises(InvalidInputError, match=r"p\.npz' is not a predictions file.*(damaged|no checksum)"):
            load_predictions(path)


def test_other_files_are_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "other.npz", ids=np.zeros(2))
    np.save(tmp_path / "array.npy", np.zeros(2))
    (tmp_path / "notes.npz").write_text("not an archive")
    (tmp_path / "folder.npz").mkdir()
    for name in ("other.npz", "array.npy", "notes.npz", "folder.npz"):
        with pytest.raises(InvalidInputError, match=f"{name}' is not a predictions file of shiftcal"):
            load_predictions(tmp_path / name)


BAD_CONTENTS: dict[str, dict[str, object]] = {
    "other probabilities": {"probabilities": np.full((3, 2), 0.9)},
    "no numbers": {"probabilities": np.full((3, 2), np.nan)},
    "negative": {"probabilities": np.array([[-0.5, 1.5]] * 3)},
    "fewer rows": {"density_ratio": np.ones(2)},
    "negative ratios": {"density_ratio": -np.ones(3)},
    "fewer classes": {"classes": np.array('["cat"]')},
    "classes of classes": {"classes": np.array('[["cat"], ["dog"]]')},
    "no JSON": {"classes": np.array("[" * 100_000)},
    "labels of no class": {"labels": np.array([0, 1, 2])},
    "labels that are no numbers": {"labels": np.array(["a", "b", "a"])},
    "examples of no row": {"example_rows": np.array([3, 0])},
    "flat images": {"example_images": np.zeros((2, 4), np.uint8)},
}


@pytest.mark.parametrize("case", BAD_CONTENTS)
def test_whole_files_with_other_contents_are_refused(tmp_path: Path, case: str) -> None:
    """A checksum is no signature: anyone can make one."""
    save_predictions(make_predictions(labels=True, examples=True), tmp_path / "p.npz")
    with open_own_file(tmp_path / "p.npz", "predictions") as file:
        arrays = {name: file[name] for name in file.names}
    write_own_file(tmp_path / "p.npz", arrays | BAD_CONTENTS[case])  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match=r"p\.npz' is not a predictions file of shiftcal: expected"):
        load_predictions(tmp_path / "p.npz")


def test_one_row_and_one_class_suffice(tmp_path: Path) -> None:
    one = dataclasses.replace(
        make_predictions(("only",)),
        ids=np.array(["0"]),
        probabilities=np.ones((1, 1)),
        density_ratio=np.ones(1),
    )
    save_predictions(one, tmp_path / "p.npz")
    assert load_predictions(tmp_path / "p.npz").confidence.tolist() == [1.0]


def read_table(path: Path) -> Predictions:
    table, where = first_rows(path), str(path)
    columns = find_columns(table, ColumnChoice(), where)
    ids = table["id"] if "id" in table else np.arange(len(table))
    return Predictions(
        np.array(list(map(str, ids))),
        columns.outputs(table, where),
        np.ones(len(table)),
        columns.classes,
        columns.labels(table, where),
    )


@pytest.mark.parametrize("suffix", [".csv", ".npz", ".parquet"])
def test_a_table_that_was_written_can_be_read(tmp_path: Path, suffix: str) -> None:
    if suffix == ".parquet":
        pytest.importorskip("pyarrow")
    export_predictions(make_predictions(), tmp_path / f"table{suffix}")
    read = read_table(tmp_path / f"table{suffix}")
    assert read.classes == ("cat", "dog")
    assert read.ids.tolist() == ["cat/1.png", "2", "größe, 3"]
    np.testing.assert_allclose(read.probabilities, PROBABILITIES, rtol=1e-15)
    assert read.labels is None


def test_the_predictions_file_of_a_run_can_be_read_as_a_table(tmp_path: Path) -> None:
    save_predictions(make_predictions(labels=True), tmp_path / "target.npz")
    labels = read_table(tmp_path / "target.npz").labels
    assert labels is not None
    assert labels.tolist() == [1, 0, 1]


def test_labels_and_rounded_probabilities_of_other_programs(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("label,probability_0,probability_1\n1,0.333,0.666\n0,1,0\n")
    read = read_table(tmp_path / "t.csv")
    assert read.labels is not None
    assert read.labels.tolist() == [1, 0]
    np.testing.assert_allclose(read.probabilities, np.array([[1 / 3, 2 / 3], [1.0, 0.0]]))
    assert read.ids.tolist() == ["0", "1"]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "is not a table"),
        ("probability_0,probability_1\n", "probability_<class>"),
        ("a,b\n1,2\n", "probability_<class>"),
        ("probability_0,probability_1\n0.9,0.9\n", "row 1 is"),
        ("probability_0,probability_1\n-0.5,1.5\n", "row 1 is"),
        ("probability_0,probability_1\nx,1\n", "something else than numbers"),
        ("label,probability_0,probability_1\n7,0.5,0.5\n", "label '7' has no column"),
    ],
)
def test_tables_without_probabilities_are_refused(tmp_path: Path, content: str, words: str) -> None:
    (tmp_path / "t.csv").write_text(content)
    with pytest.raises(InvalidInputError, match=words):
        read_table(tmp_path / "t.csv")


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"classes": ["a", "b"]}, "unknown array of .* 'probabilities'"),
        ({"classes": ["a", "a"], "probabilities": PROBABILITIES}, "classes of different names"),
        ({"classes": ["a"], "probabilities": PROBABILITIES}, r"shape \(any, 1\), got float64 \(3, 2\)"),
        ({"classes": ["a", "b"], "probabilities": PROBABILITIES, "label": ["a"]}, r"'label' .* shape \(3\)"),
        ({"classes": ["a", "b"], "probabilities": [["x", "y"]]}, "of kind f or i or u"),
    ],
)
def test_archives_that_are_no_tables(tmp_path: Path, arrays: dict[str, Any], words: str) -> None:
    np.savez(tmp_path / "t.npz", **arrays)
    with pytest.raises(InvalidInputError, match=words):
        read_table(tmp_path / "t.npz")


def test_a_missing_or_damaged_table_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataUnavailableError, match="no predictions"):
        read_table(tmp_path / "t.csv")
    (tmp_path / "t.npz").write_bytes(b"nonsense")
    with pytest.raises(InvalidInputError, match=r"can't read .*t\.npz. as a \.npz file"):
        read_table(tmp_path / "t.npz")
    (tmp_path / "t.doc").write_text("")
    with pytest.raises(InvalidInputError, match="ends in"):
        read_table(tmp_path / "t.doc")
