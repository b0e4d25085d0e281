"""Every way in, fuzzed: a case works or raises one `ShiftcalError`, in seconds and without gigabytes.

A case is a function of its number alone. `make fuzz` runs 10,000 for each way in; the tests run the first ones.
    FUZZ_CASES=10000 pytest tests/fuzz            # so many of each
    FUZZ_FIRST=1234 FUZZ_CASES=1 pytest tests/fuzz -k specs   # one again, with its traceback
"""

from __future__ import annotations

import gzip
import io
import os
import random
import re
import resource
import shutil
import string
import tarfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from PIL import Image, features
from torch.utils.data import Dataset

from shiftcal import AdaptiveClassifier
from shiftcal.calibrators import CALIBRATORS
from shiftcal.core.array_reading import write_own_file
from shiftcal.core.errors import ShiftcalError
from shiftcal.core.options import build, option_names
from shiftcal.data.array_files import encode_array_labels
from shiftcal.data.arrays import encode_labels, inputs_from
from shiftcal.data.pseudo_label_rounds import load_pseudo_label_rounds
from shiftcal.data.specs import load_domain
from shiftcal.methods import METHODS
from shiftcal.metrics import METRICS, compute_metrics
from shiftcal.runs.comparison import parse_contenders
from shiftcal.runs.config import RunConfig, read_config
from shiftcal.runs.prediction_columns import ColumnChoice, find_columns
from shiftcal.runs.prediction_tables import first_rows
from shiftcal.runs.predictions import load_predictions
from shiftcal.runs.tasks import parse_tasks
from shiftcal.target.density_ratios import DENSITY_RATIOS
from shiftcal.target.estimators import ESTIMATORS
from shiftcal.training.options import TrainingOptions

MOST_SECONDS, MOST_KILOBYTES = 5.0, 2**20
FIRST = int(os.environ.get("FUZZ_FIRST", "0"))

Fuzz = random.Random


class Awkward:
    """A value of the user's own of which any use may raise."""

    def __init__(self, fails: str) -> None:
        self.fails = fails

    def _use(self, what: str, value: Any) -> Any:
        if what == self.fails:
            raise RuntimeError(f"no {what}")
        return value

    def __hash__(self) -> int:
        return int(self._use("hash", 7))

    def __eq__(self, other: object) -> bool:
        return bool(self._use("eq", self is other))

    def __repr__(self) -> str:
        return str(self._use("repr", "awkward"))

    def __len__(self) -> int:
        return int(self._use("len", 3))

    def __array__(self, *_: Any, **__: Any) -> Any:
        return self._use("array", np.zeros((3, 2)))

    def __getitem__(self, index: Any) -> Any:
        return self._use("getitem", 1.0)


class Items(Dataset[Any]):
    """A data set whose items come from a list, whatever they are."""

    def __init__(self, items: list[Any]) -> None:
        self.items = items

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, row: int) -> Any:
        if isinstance(self.items[row], Exception):
            raise self.items[row]
        return self.items[row]


NUMBERS = (0, 1, -1, 2, 7, 0.5, 1e-300, 1e300, 1e12, 10**30, 2**63, -(2**63), np.inf, -np.inf, np.nan, 10**5000)
TEXTS = (
    "",
    " ",
    "~N",
    "n" * 300,
    "a\0b",
    "\ud800",
    "größe",
    "..x",
    "1e300",
    "nan",
    "9" * 5000,
    "-",
    "\x1b[31m",
    "=1+1",
)


def a_value(fuzz: Fuzz, depth: int = 0) -> Any:
    """Anything."""
    kinds: list[Callable[[], Any]] = [
        lambda: fuzz.choice(NUMBERS),
        lambda: fuzz.choice(TEXTS),
        lambda: fuzz.choice([None, True, False, b"", b"\xff", np.nan, (), frozenset("ab"), int, np.bool_(1), 1j]),
        lambda: Awkward(fuzz.choice(["hash", "eq", "repr", "len", "array", "getitem", ""])),
        lambda: an_array(fuzz),
        lambda: random_text(fuzz),
    ]
    if depth < 2:
        kinds += [
            lambda: [a_value(fuzz, depth + 1) for _ in range(fuzz.randrange(4))],
            lambda: tuple(a_value(fuzz, depth + 1) for _ in range(fuzz.randrange(3))),
            lambda: {fuzz.choice(TEXTS): a_value(fuzz, depth + 1) for _ in range(fuzz.randrange(3))},
        ]
    return fuzz.choice(kinds)()


def an_array(fuzz: Fuzz, shape: tuple[int, ...] | None = None) -> Any:
    """An array or tensor of any type and shape."""
    if shape is None:
        shape = tuple(fuzz.choice([0, 1, 2, 3, 12]) for _ in range(fuzz.randrange(5)))
    generator = np.random.default_rng(fuzz.randrange(2**32))
    values = np.asarray(generator.normal(size=shape)) * fuzz.choice([1, 1, 1e-300, 1e300, 100])
    if values.size and fuzz.random() < 0.3:
        values.flat[fuzz.randrange(values.size)] = fuzz.choice([np.nan, np.inf, -np.inf, 0])
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        array = np.asarray(values).astype(
            fuzz.choice(["f2", "f4", "f8", "g", ">f4", "u1", "i8", "u8", "?", "c8", "U5", "S3", "O", "M8[D]"])
        )
    kind = array.dtype.kind
    if kind in "fiu?" and array.dtype.isnative and array.dtype.char != "g" and fuzz.random() < 0.3:
        tensor = torch.from_numpy(np.array(array))
        ways: list[Callable[[], Any]] = [tensor.bfloat16, tensor.float().to_sparse, lambda: tensor.to("meta")]
        return tensor if fuzz.random() < 0.5 else fuzz.choice(ways)()
    return array.tolist() if fuzz.random() < 0.1 else np.asfortranarray(array) if fuzz.random() < 0.1 else array


def random_text(fuzz: Fuzz) -> str:
    """Text of all kinds of characters."""
    alphabet = fuzz.choice([string.printable, string.ascii_lowercase + "/:#=,.~", "[]{}:&*!-?|>'\"%@ \n\tab1"])
    return "".join(fuzz.choices(alphabet, k=fuzz.randrange(40)))


def changed_text(fuzz: Fuzz, text: str) -> str:
    """A text with some of its parts cut, doubled or replaced."""
    for _ in range(fuzz.randrange(4)):
        start, end = sorted((fuzz.randrange(len(text) + 1), fuzz.randrange(len(text) + 1)))
        middle = fuzz.choice(["", text[start:end] * 2, fuzz.choice(TEXTS), random_text(fuzz)])
        text = text[:start] + middle + text[end:]
    return text


def changed_bytes(fuzz: Fuzz, content: bytes) -> bytes:
    """Bytes with bits flipped, parts cut off, cut out, repeated or set to extreme values."""
    for _ in range(fuzz.choice([1, 1, 2, 5])):
        if not content:
            break
        start = fuzz.randrange(len(content)) if fuzz.random() < 0.5 else fuzz.randrange(min(200, len(content)))
        end = min(len(content), start + fuzz.choice([1, 2, 4, 40, 4000]))
        middle = fuzz.choice(
            [
                bytes([content[start] ^ (1 << fuzz.randrange(8))]) + content[start + 1 : end],
                b"",
                content[start:end] * 2,
                b"\xff" * (end - start),
                b"\0" * (end - start),
                fuzz.randbytes(end - start),
            ]
        )
        content = content[:start] if fuzz.random() < 0.1 else content[:start] + middle + content[end:]
    return content


_PATHS = ("a.npz", "a.npz:p", "a.npz#x=x,y=y", "a.npz#x=x,y=y,classes=c", "a.npy", "list.txt", "pictures", "~/data")
SPECS = (*_PATHS, "digits/uci:test", "unlabelled:pictures", "office-31/amazon", "svhn:test", "./nowhere/x.npz")


def fuzz_specs(fuzz: Fuzz, place: Path) -> None:
    spec = fuzz.choice([*SPECS, *TEXTS])
    spec = changed_text(fuzz, spec)
    if not re.match(r"[a-z: ]*(/|\.\.)", spec):  # not through the whole disk
        load_domain(spec, data_dir=place)


def fuzz_configuration(fuzz: Fuzz, place: Path) -> None:
    plain: dict[Any, Any] = {"source": "a.npz", "method": fuzz.choice([*METHODS]), "training": {"epochs": 2}}
    plain |= {"image_size": 28, "method_options": {"learning_rate": 0.1}, "backbone": "auto", "fallback": True}
    way = fuzz.randrange(4)
    if way == 0:
        text = changed_text(fuzz, yaml.safe_dump(plain) + fuzz.choice(["", "a: &a [1]\nb: *a\n", "c: !!set {a}\n"]))
        (place / "c.yaml").write_bytes(text.encode("utf-8", "surrogatepass"))
        read_config(place / "c.yaml").recipe()
    elif way == 1:
        key = fuzz.choice([*option_names(TrainingOptions), *option_names(METHODS[plain["method"]])])
        setting = changed_text(fuzz, f"{key}={fuzz.choice([*map(str, NUMBERS[:-1]), *TEXTS])}")
        RunConfig(source="a.npz", method=plain["method"]).with_settings([setting]).recipe()
    elif way == 2:
        parse_contenders(changed_text(fuzz, "drl[ratio_bound=3;epochs=2]+histogram[num_bins=4],source-only"))
    else:
        parse_tasks(changed_text(fuzz, "demo,a.npz->b.npz@c.npz"))


def fuzz_arrays(fuzz: Fuzz, place: Path) -> None:
    labels = fuzz.choice(
        [np.arange(6) % 2, np.array(["a", "b"] * 3), np.array([b"\xff", b"a"] * 3), np.zeros((2, 3))]
    )
    inputs: Any = fuzz.choice([np.zeros((6, 3), np.float32), np.zeros((6, 4, 4), np.uint8), np.zeros((6, 2))])
    stream = io.BytesIO()
    if fuzz.random() < 0.3:
        np.save(stream, inputs)
        path = place / "fuzzed.npy"
    else:
        more: dict[str, Any] = {"classes": np.array(["x", "y"])} if fuzz.random() < 0.3 else {}
        fuzz.choice([np.savez, np.savez_compressed])(stream, x=inputs, y=labels, **more)
        path = place / "fuzzed.npz"
    path.write_bytes(changed_bytes(fuzz, stream.getvalue()))
    domain = load_domain(path)
    domain.inputs.fetch(np.array([0]))


def fuzz_pictures(fuzz: Fuzz, place: Path) -> None:
    kind = fuzz.choice(["JPEG", "PNG", "BMP", "GIF", "TIFF", "PPM", *(["WEBP"] if features.check("webp") else [])])
    stream = io.BytesIO()
    shape = fuzz.choice([(9, 9), (9, 9, 3), (1, 500), (40, 3)])
    pixels = np.random.default_rng(fuzz.randrange(2**32)).integers(0, 256, shape, dtype=np.uint8)
    options = {"compression": "tiff_lzw"} if kind == "TIFF" and fuzz.random() < 0.5 else {}
    Image.fromarray(pixels).save(stream, kind, **options)
    folder = place / "fuzzed"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    (folder / "1.png").write_bytes(changed_bytes(fuzz, stream.getvalue()))
    load_domain(folder).inputs.fetch(np.array([0]))


def fuzz_shards(fuzz: Fuzz, place: Path) -> None:
    stream = io.BytesIO()
    Image.new("RGB", (9, 9)).save(stream, "PNG")
    content = stream.getvalue()
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=fuzz.choice([tarfile.PAX_FORMAT, tarfile.GNU_FORMAT])) as tar:
        for name, member in (("a/1.png", content), ("a/1.cls", b"1"), (120 * "b" + ".png", content)):
            about = tarfile.TarInfo(name)
            about.size = len(member)
            tar.addfile(about, io.BytesIO(member))
    (place / "fuzzed.tar").write_bytes(changed_bytes(fuzz, stream.getvalue()))
    load_domain("fuzzed.tar").inputs.fetch(np.array([0]))


def fuzz_labels(fuzz: Fuzz, place: Path) -> None:
    way = fuzz.randrange(3)
    if way == 0:
        encode_labels(fuzz.choice([[a_value(fuzz) for _ in range(fuzz.randrange(6))], a_value(fuzz)]), "y")
    elif way == 1:
        values = an_array(fuzz)
        encode_array_labels(np.asarray(values if not isinstance(values, torch.Tensor) else 0), None, "y")
    else:
        lines = changed_bytes(fuzz, b"pictures/cat/1.png cat\npictures/dog/1.png 12\npictures/dog/1.png -7\n")
        (place / "fuzzed.txt").write_bytes(lines)
        load_domain(place / "fuzzed.txt")


def fuzz_classifier(fuzz: Fuzz, place: Path) -> None:
    shape = fuzz.choice([(12, 2), (12, 2), (12, 4, 4), (12, 1, 4, 4), (12, 4, 4, 3)])

    def some_inputs() -> Any:
        ordinary = np.random.default_rng(0).integers(0, 256, shape).astype(np.uint8 if len(shape) > 2 else np.float32)
        items = [(torch.zeros(2), row % 2) for row in range(12)]
        odd = [*items[:-1], fuzz.choice([a_value(fuzz), KeyError("gone"), (torch.zeros(3), 0), (None, 1), ()])]
        return fuzz.choice([ordinary, ordinary, an_array(fuzz, shape), a_value(fuzz), Items(items), Items(odd)])

    labels = fuzz.choice(
        [[0, 1] * 6, ["a", "b", "c"] * 4, an_array(fuzz, (12,)), [a_value(fuzz) for _ in range(12)], None]
    )
    target = some_inputs() if fuzz.random() < 0.5 else None
    training = {"epoch_steps": 1, "validation_fraction": fuzz.choice([0, 0.1, 0.5])}
    classifier = AdaptiveClassifier(
        "source-only", backbone="linear", epochs=1, batch_size=4, training_options=training
    )
    classifier.fit(some_inputs(), labels, target)
    classifier.predict_proba(some_inputs())


OWNERS = {**METHODS, **CALIBRATORS, **DENSITY_RATIOS, **ESTIMATORS, "training": TrainingOptions}


def fuzz_options(fuzz: Fuzz, place: Path) -> None:
    if fuzz.random() < 0.1:
        name = fuzz.choice(["method", "calibrator", "backbone", "epochs", "batch_size", "device", "random_state"])
        AdaptiveClassifier(**{name: a_value(fuzz)})._recipe()
        return
    cls = fuzz.choice([*OWNERS.values()])
    names = [*option_names(cls), changed_text(fuzz, "epochs")]
    build(cls, a_value(fuzz) if fuzz.random() < 0.1 else {fuzz.choice(names): a_value(fuzz)}, owner="fuzz")


def fuzz_metrics(fuzz: Fuzz, place: Path) -> None:
    generator = np.random.default_rng(fuzz.randrange(2**32))
    num_rows, num_classes = fuzz.choice([1, 2, 30]), fuzz.choice([1, 2, 5])
    probabilities = generator.dirichlet(np.full(num_classes, fuzz.choice([1e-3, 1, 100])), num_rows)
    probabilities = probabilities.astype(fuzz.choice(["f2", "f4", "f8"]))
    labels = generator.integers(0, num_classes, num_rows)
    given = [fuzz.choice([probabilities, probabilities, a_value(fuzz)]), fuzz.choice([labels, labels, a_value(fuzz)])]
    if fuzz.random() < 0.5:
        compute_metrics(*given)
    else:
        METRICS[fuzz.choice([*METRICS])].function(*given)


def fuzz_inputs(fuzz: Fuzz, place: Path) -> None:
    inputs = inputs_from(a_value(fuzz), "X")
    assert torch.isfinite(inputs.fetch(np.arange(len(inputs), dtype=np.int64))).all()


def fuzz_prediction_tables(fuzz: Fuzz, place: Path) -> None:
    stream = io.BytesIO()
    suffix = fuzz.choice([".csv", ".csv", ".tsv", ".csv.gz", ".npz"])
    if suffix == ".npz":
        probabilities = np.random.default_rng(0).dirichlet(np.ones(2), 6)
        arrays: dict[str, Any] = {"classes": np.array(["a", "b"]), "probabilities": probabilities}
        fuzz.choice([np.savez, np.savez_compressed])(stream, **arrays, label=np.array(["a", "b"] * 3))
    else:
        text = "label,probability_a,probability_b,f\n" + "a,0.9,0.1,x\nb,20%,0.8,-\n" * 5
        text = changed_text(fuzz, text) if fuzz.random() < 0.5 else text
        content = text.encode("utf-8", "surrogatepass")
        stream.write(gzip.compress(content) if suffix == ".csv.gz" else content)
    path = place / f"predictions{suffix}"
    path.write_bytes(changed_bytes(fuzz, stream.getvalue()) if fuzz.random() < 0.7 else stream.getvalue())
    table = first_rows(path)
    columns = fuzz.choice([None, None, "a=probability_a,b=probability_b", changed_text(fuzz, "a=x,b=y")])
    choice = ColumnChoice(columns, fuzz.choice([None, None, "label", random_text(fuzz)]))
    found = find_columns(table, choice, "table")
    assert np.isfinite(found.outputs(table, "table")).all()
    found.labels(table, "table")


def fuzz_own_files(fuzz: Fuzz, place: Path) -> None:
    """A checksum that is right, and anything beneath it."""
    arrays: dict[str, Any] = {
        "ids": np.array(["1", "2"]),
        "probabilities": np.array([[0.9, 0.1], [0.5, 0.5]]),
        "density_ratio": np.ones(2),
        "classes": np.array(fuzz.choice(['["a", "b"]', changed_text(fuzz, '["a", "b"]')])),
        "labels": np.array([0, 1]),
        "epochs": np.array([1]),
        "estimated_precision": np.ones(1),
    }
    for _ in range(fuzz.randrange(3)):
        other = an_array(fuzz) if fuzz.random() < 0.5 else fuzz.choice([*arrays.values()]).T
        if isinstance(other, np.ndarray) and not other.dtype.hasobject:
            arrays[fuzz.choice([*arrays])] = other
    path = place / "own.npz"
    write_own_file(path, arrays)
    if fuzz.random() < 0.5:
        load_predictions(path)
    else:
        load_pseudo_label_rounds(path, 2)


# How many of each the tests run: about half a second.
TARGETS: dict[Callable[[Fuzz, Path], None], int] = {
    fuzz_specs: 200,
    fuzz_configuration: 150,
    fuzz_arrays: 300,
    fuzz_pictures: 150,
    fuzz_shards: 150,
    fuzz_labels: 300,
    fuzz_classifier: 30,
    fuzz_inputs: 300,
    fuzz_options: 300,
    fuzz_metrics: 200,
    fuzz_prediction_tables: 60,
    fuzz_own_files: 100,
}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fuzz")
    arrays: dict[str, Any] = {
        "x": np.zeros((6, 3), np.float32),
        "y": np.arange(6) % 2,
        "p_x": np.zeros((6, 4, 4), np.uint8),
    }
    np.savez(folder / "a.npz", **arrays)
    np.save(folder / "a.npy", arrays["x"])
    for name in ("cat", "dog"):
        (folder / "pictures" / name).mkdir(parents=True)
        Image.new("RGB", (9, 9)).save(folder / "pictures" / name / "1.png")
    (folder / "list.txt").write_text("pictures/cat/1.png cat\npictures/dog/1.png dog\n")
    return folder


@pytest.fixture(autouse=True)
def _here(place: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(place)
    monkeypatch.setenv("HOME", str(place))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of NumPy, Pillow and scikit-learn about values that are odd on purpose
        yield


@pytest.mark.timeout(7200)
@pytest.mark.parametrize("target", TARGETS, ids=[target.__name__.removeprefix("fuzz_") for target in TARGETS])
def test_every_case_works_or_is_refused(target: Callable[[Fuzz, Path], None], place: Path) -> None:
    name = target.__name__.removeprefix("fuzz_")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for case in range(FIRST, FIRST + int(os.environ.get("FUZZ_CASES", TARGETS[target]))):
        again = f"case {case}; again by: FUZZ_FIRST={case} FUZZ_CASES=1 pytest tests/fuzz -k {name}"
        started = time.process_time()  # its own work, however busy the machine is
        try:
            target(Fuzz(f"{name} {case}"), place)
        except ShiftcalError:
            pass
        except Exception as error:
            error.add_note(again)
            raise
        assert time.process_time() - started < MOST_SECONDS, again
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak
        assert grown < MOST_KILOBYTES, f"{grown:,} kilobytes more at {again}"
