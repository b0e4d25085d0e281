"""Files, configurations and runs of which something is wrong, and those beside them of which nothing is."""

import shutil
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from shiftcal import AdaptiveClassifier
from shiftcal.core.seals import written_sealed

CLASSES = np.array(["cat", "dog", "owl"])


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


def write_files(folder: Path) -> None:
    for name, arrays in ARRAY_FILES.items():
        np.savez(folder / f"{name}.npz", **arrays)
    np.save(folder / "inputs.npy", feature_arrays()["x"])
    write_image_folders(folder)
    for name, text in CONFIGURATIONS.items():
        (folder / f"{name}.yaml").write_text(text)
    (folder / "words.npz").write_text("hello")
    (folder / "words.md").write_text("hello")
    AdaptiveClassifier(epochs=1).fit(ARRAY_FILES["source"]["x"], ARRAY_FILES["source"]["y"]).save(folder / "run")
    pictures = np.zeros((4, 32, 32, 3), np.uint8)
    AdaptiveClassifier(epochs=1).fit(pictures, ["cat", "dog"] * 2, pictures).save(folder / "picture_run")
    for name, damage in DAMAGES.items():
        shutil.copytree(folder / "run", folder / name)
        damage(folder / name / "checkpoint.pt")
