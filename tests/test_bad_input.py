"""Whatever is wrong with the input: one screen that says so, exit code 2, and nothing half-written."""

import shutil
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import Dataset

from shiftcal import AdaptiveClassifier
from shiftcal.core.errors import CheckpointError, InvalidInputError, OutputError, ShiftcalError, UserCodeError
from shiftcal.core.seals import written_sealed
from shiftcal.faces.cli import main
from shiftcal.training.checkpoint import FORMAT_VERSION

SCREEN_LINES, SCREEN_CHARACTERS = 24, 24 * 80
CLASSES = np.array(["cat", "dog", "owl"])
OUT = "out"


def feature_arrays(num_rows: int = 45, num_features: int = 4) -> dict[str, Any]:
    labels = np.arange(num_rows) % 3
    inputs = np.random.default_rng(0).normal(size=(num_rows, num_features)).astype(np.float32)
    return {"x": inputs, "y": CLASSES[labels]}


def with_value(value: float) -> dict[str, Any]:
    arrays = feature_arrays()
    arrays["x"][3, 1] = value
    return arrays


ARRAY_FILES: dict[str, dict[str, Any]] = {
    "source": feature_arrays(),
    "target": feature_arrays(30),
    "wide": feature_arrays(num_features=7),
    "flat": feature_arrays() | {"x": np.zeros(45, np.float32)},
    "no_rows": {key: values[:0] for key, values in feature_arrays().items()},
    "short_labels": feature_arrays() | {"y": CLASSES[[0, 1]]},
    "fractional_labels": feature_arrays() | {"y": np.linspace(0, 1, 45)},
    "nan": with_value(np.nan),
    "inf": with_value(np.inf),
    "one_class": feature_arrays() | {"y": np.full(45, "cat")},
    "no_labels": {"x": feature_arrays()["x"]},
    "other_classes": feature_arrays() | {"y": np.resize(["bat", "cat"], 45)},
    "unusual_names": {"first": np.zeros(3), "second": np.zeros(3)},
    "tiny": feature_arrays(6),
}


def write_image(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(len(path.name)).integers(0, 256, (40, 40, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(path)


def write_image_folders(folder: Path) -> None:
    for name in ("pictures/cat/1.png", "pictures/cat/2.png", "pictures/dog/1.png", "pictures/dog/2.png"):
        write_image(folder / name)
    for name in ("photos/1.png", "text/fine.png", "truncated/fine.jpg", "truncated/cut.jpg"):
        write_image(folder / name)
    (folder / "text" / "fake.jpg").write_text("not a picture")
    cut = folder / "truncated" / "cut.jpg"
    cut.write_bytes(cut.read_bytes()[: cut.stat().st_size // 2])
    (folder / "empty").mkdir()
    (folder / "missing.txt").write_text("photos/1.png cat\nphotos/9.png dog\n")
    (folder / "mixed.txt").write_text("pictures/cat/1.png cat\npictures/dog/1.png\n")


CONFIGURATIONS = {
    "wrong_label": "source: source.npz\nlabel: [y]\n",
    "wrong_ignore": "source: source.npz\nignore: y\n",
    "not_yaml": "source: [source.npz\ntarget: }",
    "no_mapping": "- source.npz\n- target.npz\n",
    "no_source": "target: target.npz\n",
    "unknown_key": "source: source.npz\ntarge: target.npz\n",
    "unknown_training_key": "source: source.npz\ntraining: {epoch: 1}\n",
    "unknown_method_key": "source: source.npz\nmethod: drl\nmethod_options: {ratio_bond: 2}\n",
    "unknown_calibrator_key": "source: source.npz\ncalibrator: histogram\ncalibrator_options: {num_bin: 2}\n",
    "wrong_value": "source: source.npz\nmethod: drl\nmethod_options: {ratio_bound: 0.5}\n",
    "wrong_type": "source: source.npz\ncalibrator: [temperature]\n",
    "wrong_size": "source: source.npz\nimage_size: large\n",
    "huge_size": "source: source.npz\nimage_size: 100000\n",
    "deep": "source: source.npz\ntraining: " + "[" * 5000,
    "exploding": "a: &a [x]\n" + "".join(f"{b}: &{b} [*{a}, *{a}]\n" for a, b in pairwise("abcdefghijklmnopqrst")),
    "endless": "source: &a [*a]\n",
    "twice": "source: source.npz\nsource: target.npz\n",
    "timestamp": "source: !!timestamp 2020\n",
    "epochs": "source: source.npz\ntraining: {epochs: 1e300}\n",
}


def change_checkpoint(change: Callable[[dict[str, Any]], None]) -> Callable[[Path], None]:
    def changed(path: Path) -> None:
        content = torch.load(path, weights_only=True)
        change(content)
        with written_sealed(path) as stream:
            torch.save(content, stream)

    return changed


DAMAGES: dict[str, Callable[[Path], object]] = {
    "other_version": change_checkpoint(lambda content: content.update(format_version=99)),
    "unfinished": change_checkpoint(lambda content: content.update(training={"epoch": 1})),
    "no_model": change_checkpoint(lambda content: content.pop("model")),
    "odd_model": change_checkpoint(lambda content: content.update(model={"recipe": {"method": 3}})),
    "odd_weights": change_checkpoint(lambda content: content["model"].update(network={"a": torch.zeros(1)})),
    "cut": lambda path: path.write_bytes(path.read_bytes()[:3000]),
    "no_bytes": lambda path: path.write_bytes(b""),
    "words": lambda path: path.write_text("hello"),
    "gone": lambda path: path.unlink(),
}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, quick_estimate: None) -> Path:
    folder = tmp_path_factory.mktemp("bad-input")
    for name, arrays in ARRAY_FILES.items():
        np.savez(folder / f"{name}.npz", **arrays)
    np.save(folder / "inputs.npy", feature_arrays()["x"])
    write_image_folders(folder)
    for name, text in CONFIGURATIONS.items():
        (folder / f"{name}.yaml").write_text(text)
    (folder / "words.npz").write_text("hello")
    (folder / "words.md").write_text("hello")
    AdaptiveClassifier(epochs=1).fit(**_as_fit_arguments(ARRAY_FILES["source"])).save(folder / "run")
    pictures = np.zeros((4, 32, 32, 3), np.uint8)
    AdaptiveClassifier(epochs=1).fit(pictures, ["cat", "dog"] * 2, pictures).save(folder / "picture_run")
    for name, damage in DAMAGES.items():
        shutil.copytree(folder / "run", folder / name)
        damage(folder / name / "checkpoint.pt")
    return folder


def _as_fit_arguments(arrays: Mapping[str, Any]) -> dict[str, Any]:
    return {"X": arrays["x"], "y": arrays["y"]}


@pytest.fixture(autouse=True)
def _here(place: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(place)
    before = contents(place)
    yield
    assert contents(place) == before, "something was written, or something is gone"


def contents(folder: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns if path.is_file() else 0 for path in folder.rglob("*")}


def refusal(line: str, capsys: pytest.CaptureFixture[str]) -> str:
    """The message of a command (words of a line) that is to fail."""
    try:
        code: object = main(line.split())
    except SystemExit as stop:
        code = stop.code
    captured = capsys.readouterr()
    assert code == 2, captured
    assert captured.out == ""
    assert "Traceback" not in captured.err
    assert captured.err.startswith("shiftcal: ")
    assert len(captured.err) <= SCREEN_CHARACTERS
    assert captured.err.count("\n") <= SCREEN_LINES
    return captured.err


BAD_DATA = {
    # source and target, and what the message must say
    "source.npz wide.npz": ["(4,)", "(7,)"],
    "flat.npz target.npz": ["'x'", "(45,)", "(N, D)"],
    "no_rows.npz target.npz": ["at least one row", "(0, 4)"],
    "short_labels.npz target.npz": ["2 labels for 45 inputs"],
    "fractional_labels.npz target.npz": ["'y'", "whole number or text"],
    "unusual_names.npz target.npz": ["first", "second", "FILE.npz#x="],
    "nan.npz target.npz": ["NaN or infinite", "row 3", "nan.npz"],
    "source.npz nan.npz": ["NaN or infinite", "row 3"],
    "inf.npz target.npz": ["NaN or infinite", "row 3"],
    "one_class.npz target.npz": ["one class only", "'cat'"],
    "no_labels.npz target.npz": ["labels missing", "no_labels.npz"],
    "inputs.npy target.npz": ["labels missing", "inputs.npy"],
    "photos photos": ["labels missing", "sub-folder per class"],
    "source.npz other_classes.npz": ["class sets differ", "'bat'", "unlabelled:other_classes.npz"],
    "pictures source.npz": ["images of shape", "features of shape"],
    "pictures text": ["can't be opened as images", "fake.jpg"],
    "pictures truncated": ["can't decode the image", "cut.jpg", "truncated"],
    "truncated photos": ["labels missing"],
    "pictures empty": ["no image found", "'empty'", ".jpg"],
    "empty photos": ["no image found"],
    "missing.txt photos": ["photos/9.png"],
    "mixed.txt photos": ["line 2", "no label"],
    "words.npz target.npz": ["can't read 'words.npz'"],
    "words.md target.npz": ["can't tell what kind of data"],
    "nowhere.npz target.npz": ["no file 'nowhere.npz'"],
    "./nowhere target.npz": ["./nowhere", "A spec is"],
    "source.npz:test target.npz": ["unknown part", "'test'"],
    "source.npz#x=X,y=y target.npz": ["unknown array", "Known: x, y"],
    "~N target.npz": ["home directory", "~N", "A spec is"],
    f"{'n' * 300} target.npz": ["too long", "A spec is"],
    "nul\0.npz target.npz": ["null byte", r"nul\x00.npz"],
    "unlabelled:unlabelled:source.npz target.npz": ["unlabelled: once"],
    "digts/uci digits/mnist": ["unknown data set 'digts'", "Did you mean 'digits'"],
    "digits/uc digits/mnist": ["'uc'", "Did you mean 'uci'"],
    "digits/uci:tset digits/mnist": ["'tset'", "Did you mean 'test'"],
}


@pytest.mark.parametrize("specs", BAD_DATA)
def test_data(specs: str, capsys: pytest.CaptureFixture[str]) -> None:
    source, target = specs.split()
    message = refusal(f"fit --source {source} --target {target} --out {OUT} --set epochs=1", capsys)
    for words in BAD_DATA[specs]:
        assert words in message


BAD_CHOICES = {
    "--method drll": ["unknown method 'drll'", "Did you mean 'drl'"],
    "--method nothing-like-it": ["unknown method", "Known: ", "importance-weighting"],
    "--calibrator temprature": ["unknown calibrator", "Did you mean 'temperature'"],
    "--backbone mpl": ["unknown backbone", "Did you mean 'mlp'"],
    "--backbone small-cnn": ["takes images", "choose 'mlp'"],
    "--backbone wrn-x": ["wrn-DEPTH-WIDTH"],
    "--set epoch=1": ["unknown option", "Did you mean 'epochs'"],
    "--set ratio_bond=2": ["unknown option", "Did you mean 'ratio_bound'"],
    "--set epochs": ["expected --set key=value", "'epochs'"],
    "--set epochs=0": ["'epochs'", "at least 1", "Got 0"],
    "--set epochs=many": ["'epochs'", "whole number", "'many'"],
    "--set learning_rate=-1": ["'learning_rate'", "more than 0", "-1"],
    "--set ratio_bound=1": ["'ratio_bound'", "more than 1"],
    "--set validation_fraction=1": ["'validation_fraction'", "less than 1"],
    "--set precision=fp8": ["'fp32' or 'bf16'", "'fp8'"],
    "--set device=gpu": ["device must be", "'gpu'"],
    "--image-size 0": ["at least 1", "0"],
    "--image-size big": ["whole number", "big"],
    "--image-size 100000": ["at most 10,000", "100000"],
    "--image-size 9000": ["at most 4,096", "9000"],
    "--set epochs=!!timestamp": ["'epochs'", "whole number", "!!timestamp"],
    "--set epoch_steps=1e12": ["'epoch_steps'", "at most 1,000,000"],
    "--set batch_size=1e10": ["'batch_size'", "at most 65,536"],
    "--set num_workers=500": ["'num_workers'", "at most 64"],
    "--set random_state=1e30": ["'random_state'", "at most 4,294,967,295"],
    "--test wide.npz": ["test data", "(4,)", "(7,)"],
    "--test other_classes.npz": ["class sets differ", "'bat'"],
    "--test nowhere.npz": ["no file 'nowhere.npz'"],
    "--calibrator temperature --source tiny.npz": ["too small", "at least 10 rows", "validation_fraction"],
    "--calibrator temperature --set validation_fraction=0": ["validation_fraction is 0"],
    "--sorce source.npz": ["unknown option '--sorce'", "Did you mean '--source'"],
}


@pytest.mark.parametrize("choice", BAD_CHOICES)
def test_names_and_values(choice: str, capsys: pytest.CaptureFixture[str]) -> None:
    message = refusal(f"fit --source source.npz --target target.npz --out {OUT} --set epochs=1 {choice}", capsys)
    for words in BAD_CHOICES[choice]:
        assert words in message


def test_a_picture_that_only_the_last_prediction_decodes(capsys: pytest.CaptureFixture[str]) -> None:
    message = refusal(f"fit --source pictures --target photos --test truncated --out {OUT} --set epochs=1", capsys)
    assert "cut.jpg" in message


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ("--source source.npz --target inputs.npy", "a learning curve needs labels"),
        ("--source source.npz --target target.npz --test inputs.npy", "'inputs.npy' has none"),
    ],
)
def test_learning_curve(data: str, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert words in refusal(f"fit {data} --out {OUT} --set epochs=1 --learning-curve", capsys)


@pytest.mark.parametrize(
    ("out", "words"),
    [
        ("words.md/run", "'words.md' is a file"),
        ("words.md", "'words.md' is a file"),
        ("run", "already holds a run"),
        ("photos", "holds other files"),
    ],
)
def test_output_folder(out: str, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert words in refusal(f"fit --source source.npz --target target.npz --out {out}", capsys)


BAD_CONFIGURATIONS = {
    "nowhere": ["no configuration file"],
    "not_yaml": ["not a YAML file", "line 2"],
    "no_mapping": ["expected a mapping", "'source'"],
    "no_source": ["'source'", "target.npz"],
    "unknown_key": ["unknown key", "Did you mean 'target'"],
    "unknown_training_key": ["unknown option of training", "Did you mean 'epochs'"],
    "unknown_method_key": ["unknown option of method 'drl'", "Did you mean 'ratio_bound'"],
    "unknown_calibrator_key": ["unknown option of calibrator 'histogram'", "Did you mean 'num_bins'"],
    "wrong_value": ["'ratio_bound'", "more than 1", "0.5"],
    "wrong_type": ["'calibrator'", "['temperature']"],
    "wrong_size": ["'image_size'", "'large'"],
    "huge_size": ["image_size", "at most 4,096", "100000"],
    "deep": ["at most 20 levels", "line 2"],
    "exploding": ["10,000 values", "aliases"],
    "endless": ["10,000 values", "aliases"],
    "twice": ["the key 'source' twice", "line 2"],
    "timestamp": ["timestamp"],
    "epochs": ["'epochs'", "at most 1,000,000", "1e300"],
    "wrong_label": ["'label' must be the name of a column"],
    "wrong_ignore": ["'ignore' must be a list of names"],
}


@pytest.mark.parametrize("name", BAD_CONFIGURATIONS)
def test_configuration_file(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    message = refusal(f"run {name}.yaml --out {OUT}", capsys)
    for words in BAD_CONFIGURATIONS[name]:
        assert words in message


BAD_RUNS = {
    "other_version": ["format 99", f"format {FORMAT_VERSION}", "train again"],
    "unfinished": ["not finished", "--resume"],
    "no_model": ["holds no model"],
    "odd_model": ["does not fit its own configuration"],
    "odd_weights": ["does not fit its own configuration"],
    "cut": ["damaged"],
    "no_bytes": ["damaged"],
    "words": ["damaged"],
    "gone": ["no checkpoint"],
    "nowhere": ["no checkpoint", "nowhere"],
    "words.md": ["no checkpoint"],
}


@pytest.mark.parametrize("command", [f"predict RUN --out {OUT}.csv", "evaluate RUN"])
@pytest.mark.parametrize("run", BAD_RUNS)
def test_checkpoint(run: str, command: str, capsys: pytest.CaptureFixture[str]) -> None:
    message = refusal(f"{command.replace('RUN', run)} --data target.npz", capsys)
    for words in BAD_RUNS[run]:
        assert words in message
    assert "weights_only" not in message


BAD_NEW_DATA = {
    "run wide.npz": ["(4,)", "(7,)"],
    "run photos": ["(4,)", "(3, 32, 32)"],
    "run other_classes.npz": ["class sets differ", "'bat'"],
    "run nan.npz": ["NaN or infinite"],
    "picture_run target.npz": ["expected images", "features"],
    "picture_run truncated": ["cut.jpg"],
    "picture_run text": ["fake.jpg"],
    "picture_run empty": ["no image found"],
}


@pytest.mark.parametrize("command", [f"predict RUN --out {OUT}.csv", "evaluate RUN"])
@pytest.mark.parametrize("run_and_data", BAD_NEW_DATA)
def test_new_data(run_and_data: str, command: str, capsys: pytest.CaptureFixture[str]) -> None:
    run, data = run_and_data.split()
    message = refusal(f"{command.replace('RUN', run)} --data {data}", capsys)
    for words in BAD_NEW_DATA[run_and_data]:
        assert words in message


def test_evaluation_without_labels(capsys: pytest.CaptureFixture[str]) -> None:
    assert "need labels" in refusal("evaluate run --data inputs.npy", capsys)


@pytest.mark.parametrize(
    ("out", "words"),
    [(f"{OUT}.txt", ".csv or .npz or .parquet"), (OUT, ".parquet"), ("words.md/p.csv", "is a file")],
)
def test_prediction_file(out: str, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert words in refusal(f"predict run --data target.npz --out {out}", capsys)


BAD_COMPARISONS = {
    "demoo drl": ["unknown task", "Did you mean 'demo'"],
    "source.npz-> drl": ["unknown task", "SOURCE->TARGET"],
    ", drl": ["at least one task"],
    "source.npz->target.npz ,": ["at least one method"],
    "source.npz->target.npz drll": ["unknown method", "Did you mean 'drl'"],
    "source.npz->target.npz drl+temprature": ["unknown calibrator", "Did you mean 'temperature'"],
    "source.npz->target.npz drl[ratio_bond=2]": ["unknown option", "Did you mean 'ratio_bound'"],
    "source.npz->target.npz drl[ratio_bound=1]": ["'ratio_bound'", "more than 1"],
    "source.npz->target.npz drl[": ["METHOD[key=value;...]"],
    "source.npz->target.npz drl[random_state=1]": ["random_state", "seed"],
    "source.npz->wide.npz drl": ["(4,)", "(7,)"],
    "source.npz->target.npz@wide.npz drl": ["(4,)", "(7,)"],
    "source.npz->inputs.npy drl": ["needs labels", "SOURCE->TARGET@TEST"],
    "source.npz->nowhere.npz drl": ["no file 'nowhere.npz'"],
    "tiny.npz->target.npz drl,drl+temperature": ["too small"],
    "source.npz->target.npz drl --backbone mpl": ["Did you mean 'mlp'"],
    "source.npz->target.npz drl --out words.md/c": ["is a file"],
    "source.npz->target.npz drl --out photos": ["holds other files"],
    "source.npz->target.npz drl --seeds 0": ["at least 1"],
    "source.npz->target.npz drl --jobs two": ["whole number"],
    "source.npz->target.npz drl --engine dask": ["'ray:ADDRESS'", "Got 'dask'"],
}


@pytest.mark.parametrize("line", BAD_COMPARISONS)
def test_comparison(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    tasks, methods, *more = line.split()
    command = f"compare --tasks {tasks} --methods {methods} --out {OUT} --set epochs=1 --seeds 1 {' '.join(more)}"
    message = refusal(command, capsys)
    for words in BAD_COMPARISONS[line]:
        assert words in message


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("report nowhere", "not the folder of a run"),
        ("report photos", "not the folder of a run"),
        ("report run", "not finished"),
        ("predict nowhere --files table.csv --out scored", "no file at 'nowhere/checkpoint.pt'"),
        ("predict nowhere --out scored", "one of the arguments --data --files is required"),
        ("calibrate --source table.csv --out scored", "either --target FILE or --targets FILE"),
        ("list methds", "Did you mean 'methods'"),
        ("fitt", "Did you mean 'fit'"),
        ("fit", "required: --source"),
    ],
)
def test_other_commands(line: str, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert words in refusal(line, capsys)


FEATURES = feature_arrays()["x"]
LABELS = feature_arrays()["y"]
PICTURES = np.zeros((45, 8, 8), np.uint8)


class Items(Dataset[Any]):
    """A dataset of the user's own, by a function of the row."""

    def __init__(self, item: Callable[[int], Any], length: Any = 45) -> None:
        self.item, self.length = item, length

    def __len__(self) -> Any:
        return self.length

    def __getitem__(self, row: int) -> Any:
        return self.item(row)


def broken(row: int) -> tuple[torch.Tensor, int]:
    if row == 17:
        raise KeyError("the file is gone")
    return torch.zeros(4), row % 3


def only_in_row_17(value: Any) -> Items:
    return Items(lambda row: (value if row == 17 else torch.zeros(4), row % 3))


class Unwritten:
    def __str__(self) -> str:
        raise RuntimeError("no text")


class Unconvertible:
    def __array__(self, *_: Any, **__: Any) -> Any:
        raise RuntimeError("no array")


BAD_ARRAYS: dict[str, tuple[dict[str, Any], str]] = {
    "nothing": ({"X": None}, "X: expected float features.*got None"),
    "nothing as the target": ({"X_target": []}, "X_target.*2D"),
    "text": ({"X": "photos"}, "X: expected float features.*'photos'"),
    "a mapping": ({"X": {"a": FEATURES}}, "X: expected float features"),
    "a generator": ({"X": iter(FEATURES)}, "X: expected float features"),
    "sparse tensor": ({"X": torch.eye(4).to_sparse()}, "X: expected an ordinary dense tensor"),
    "ragged": ({"X": [[1.0, 2.0], [3.0]]}, "X and y.*inhomogeneous"),
    "no features": ({"X": torch.zeros(45, 0)}, "at least one row and column"),
    "no pixels": ({"X": PICTURES[:, :0]}, "at least one row and column"),
    "an object that raises": ({"X": Unconvertible()}, "X and y: no array"),
    "dataset that raises": ({"X": Items(broken), "y": None}, "item 17 of the dataset Items raised KeyError.*gone"),
    "target that raises": ({"X_target": Items(broken)}, "item 17 of the dataset Items raised KeyError.*gone"),
    "ragged dataset": ({"X": only_in_row_17(torch.zeros(5)), "y": None}, r"item 17.*\(5,\).*\(4,\)"),
    "NaN dataset": ({"X": only_in_row_17(torch.full((4,), torch.nan)), "y": None}, "item 17.*NaN"),
    "NaN target dataset": ({"X_target": only_in_row_17(torch.full((4,), torch.nan))}, "item 17.*NaN"),
    "None in a dataset": ({"X": only_in_row_17(None), "y": None}, "tensors.*NoneType in item 17"),
    "empty items": ({"X": Items(lambda _: ()), "y": None}, "got tuple in item 0"),
    "empty dataset": ({"X": Items(broken, 0), "y": None}, "at least one item"),
    "dataset of a strange length": ({"X": Items(broken, "x"), "y": None}, "length of the dataset Items raised"),
    "labels that are text": ({"X": PICTURES, "y": "ab" * 20}, "y: expected labels in a list or array"),
    "labels that are a set": ({"X": PICTURES, "y": set(range(45))}, "y: expected labels in a list or array"),
    "one label": ({"X": PICTURES, "y": 3}, "y: expected labels in a list or array"),
    "an array of one label": ({"X": PICTURES, "y": np.array(3)}, "a single value"),
    "labels that are lists": ({"X": PICTURES, "y": [[0], [1], [2]] * 15}, r"got \[0\] in row 0"),
    "labels without text": ({"y": [Unwritten(), Unwritten(), 1] * 15}, "labels.*RuntimeError: no text"),
    "labels of 5,000 digits": ({"y": [10**5000, 1, 2] * 15}, "labels.*digits"),
    "labels that are None": ({"y": [None, 1, 2] * 15}, "15 of 45 labels are missing"),
    "infinity": ({"X": with_value(np.inf)["x"]}, "X.*infinity"),
    "infinity in the target": ({"X_target": with_value(np.inf)["x"]}, "X_target.*infinity"),
    "infinity beside NaN": ({"X": np.where(np.eye(45, 4), np.nan, with_value(np.inf)["x"])}, "X.*infinity"),
    "NaN in a tensor": ({"X": torch.from_numpy(with_value(np.nan)["x"])}, "NaN or infinite"),
    "one dimension": ({"X": FEATURES[:, 0]}, "2D"),
    "no rows": ({"X": FEATURES[:0], "y": LABELS[:0]}, "0 sample"),
    "float pictures": ({"X": PICTURES / 255}, "uint8"),
    "four channels": ({"X": np.zeros((45, 8, 8, 4), np.uint8)}, "1 or 3 channels"),
    "NaN pictures": ({"X": torch.full((45, 1, 8, 8), torch.nan)}, "NaN or infinite"),
    "target of another shape": ({"X_target": FEATURES[:, :2]}, "X_target.*2 features.*4 features"),
    "target pictures of another shape": (
        {"X": PICTURES, "X_target": PICTURES[:, :4]},
        r"X_target.*\(1, 8, 8\).*\(1, 4, 8\)",
    ),
    "fewer labels": ({"y": LABELS[:-1]}, "45, 44"),
    "fewer labels of pictures": ({"X": PICTURES, "y": LABELS[:-1]}, "45 rows.*44 labels"),
    "no labels": ({"y": None}, "labels are missing"),
    "missing labels": ({"X": torch.from_numpy(FEATURES), "y": [None, *LABELS[1:]]}, "1 of 45 labels are missing"),
    "one class": ({"y": np.full(45, "cat")}, "two classes.*'cat'"),
    "continuous labels": ({"y": np.linspace(0, 1, 45)}, "continuous"),
}


@pytest.mark.parametrize("case", BAD_ARRAYS)
def test_arrays(case: str) -> None:
    changes, words = BAD_ARRAYS[case]
    arguments = {"X": FEATURES, "y": LABELS, **changes}
    with pytest.raises(ShiftcalError, match=f"(?s){words}") as refused:
        AdaptiveClassifier(epochs=1).fit(**arguments)
    # A mistake in what was given is a ValueError; one in the user's own code has its cause.
    assert isinstance(refused.value, ValueError) != isinstance(refused.value, UserCodeError)
    assert isinstance(refused.value, UserCodeError) == (" raised " in str(refused.value))


BAD_ARGUMENTS: dict[str, tuple[dict[str, Any], str]] = {
    "method": ({"method": "drll"}, "Did you mean 'drl'"),
    "calibrator": ({"calibrator": "temprature"}, "Did you mean 'temperature'"),
    "backbone": ({"backbone": "mpl"}, "Did you mean 'mlp'"),
    "backbone type": ({"backbone": 3}, "name or an nn.Module"),
    "method option": ({"method": "drl", "method_options": {"ratio_bond": 2}}, "Did you mean 'ratio_bound'"),
    "method value": ({"method": "drl", "method_options": {"ratio_bound": 1}}, "more than 1"),
    "calibrator option": (
        {"calibrator": "histogram", "calibrator_options": {"num_bin": 2}},
        "Did you mean 'num_bins'",
    ),
    "options of no calibrator": (
        {"method": "drl", "calibrator_options": {"num_bins": 2}},
        "expected a calibrator",
    ),
    "training option": ({"training_options": {"worker": 2}}, "Did you mean 'num_workers'"),
    "doubled option": ({"training_options": {"epochs": 2}}, "repeat 'epochs'"),
    "epochs": ({"epochs": 0}, "at least 1"),
    "device": ({"device": "gpu"}, "'gpu'"),
}


@pytest.mark.parametrize("case", BAD_ARGUMENTS)
def test_arguments(case: str) -> None:
    changes, words = BAD_ARGUMENTS[case]
    with pytest.raises(InvalidInputError, match=words):
        AdaptiveClassifier(**{"epochs": 1, **changes}).fit(FEATURES, LABELS)


@pytest.mark.parametrize(
    ("run", "inputs", "words"),
    [
        ("run", FEATURES[:, :2], "2 features.*4 features"),
        ("run", torch.zeros(3, 2), r"\(4,\).*\(2,\)"),
        ("run", with_value(np.nan)["x"], "NaN"),
        ("run", PICTURES, r"\(4,\).*\(1, 8, 8\)"),
        ("picture_run", FEATURES, r"\(3, 32, 32\).*\(4,\)"),
    ],
)
def test_arrays_to_predict(run: str, inputs: Any, words: str) -> None:
    classifier = AdaptiveClassifier.load(run)
    with pytest.raises(InvalidInputError, match=f"(?s){words}"):
        classifier.predict_proba(inputs)


@pytest.mark.parametrize("run", BAD_RUNS)
def test_loading_a_bad_run(run: str) -> None:
    with pytest.raises(CheckpointError):
        AdaptiveClassifier.load(run)


def test_saving_where_nothing_can_be_written() -> None:
    with pytest.raises(OutputError, match="can't write"):
        AdaptiveClassifier.load("run").save("words.md/run")
