from __future__ import annotations

import io
import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from shiftcal.core.errors import InvalidInputError, UnknownNameError
from shiftcal.data.domains import LabelledDomain
from shiftcal.data.specs import load_domain, load_pair

needs_data = pytest.mark.skipif("SHIFTCAL_DATA" not in os.environ, reason="SHIFTCAL_DATA is not set")


def write_split_file(path: Path, size: int = 4, channels: int = 3) -> None:
    images = np.zeros((20, size, size, channels), np.uint8)
    labels = np.arange(20, dtype=np.uint8) % 10
    np.savez(path, train_x=images, train_y=labels, test_x=images[:3], test_y=labels[:3])


def labelled(spec: str, data_dir: Path) -> LabelledDomain:
    domain = load_domain(spec, data_dir=data_dir)
    assert isinstance(domain, LabelledDomain)
    return domain


def test_splits_and_their_union(tmp_path: Path) -> None:
    write_split_file(tmp_path / "svhn.npz")
    assert [len(labelled(spec, tmp_path)) for spec in ("svhn", "svhn:test", "SVHN:all")] == [20, 3, 23]


def test_union_needs_labels_in_both(tmp_path: Path) -> None:
    images = np.zeros((2, 4, 4), np.uint8)
    np.savez(tmp_path / "mnist.npz", train_x=images, test_x=images)
    with pytest.raises(InvalidInputError, match="expected labels for 'mnist:all', got none"):
        load_domain("mnist:all", data_dir=tmp_path)


def test_file_of_keras_is_understood(tmp_path: Path) -> None:
    images = np.zeros((2, 4, 4), np.uint8)
    np.savez(tmp_path / "mnist.npz", x_train=images, y_train=[7, 1])
    assert labelled("mnist", tmp_path).labels.tolist() == [7, 1]


def test_file_without_the_part_lists_what_it_has(tmp_path: Path) -> None:
    np.savez(tmp_path / "usps.npz", test_x=np.zeros((2, 4, 4), np.uint8))
    with pytest.raises(UnknownNameError, match=r"unknown part of '.*usps\.npz' 'train'.*Known: test"):
        load_domain("usps", data_dir=tmp_path)


def test_nine_shared_classes_are_named_equally(tmp_path: Path) -> None:
    write_split_file(tmp_path / "cifar10.npz")
    write_split_file(tmp_path / "stl10.npz")
    cifar, stl = labelled("cifar-10/nine", tmp_path), labelled("stl-10/nine", tmp_path)
    assert cifar.classes == stl.classes
    assert len(cifar) == len(stl) == 18
    assert [cifar.classes[code] for code in cifar.labels[:6]] == [
        "airplane", "automobile", "bird", "cat", "deer", "dog",
    ]  # fmt: skip
    assert [stl.classes[code] for code in stl.labels[:4]] == ["airplane", "bird", "automobile", "cat"]
    assert stl.inputs.identify(7) == "8"  # the row of the monkey is left out
    assert labelled("stl-10", tmp_path).classes[7] == "monkey"


def test_packed_pictures_stand_in_for_the_folder(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    Image.fromarray(np.full((8, 8, 3), 255, np.uint8)).save(buffer, "JPEG")
    jpeg = np.frombuffer(buffer.getvalue() * 2, np.uint8)
    np.savez(
        tmp_path / "office31_images128.npz",
        classes=["bike", "mug"],
        amazon_jpeg=jpeg,
        amazon_offsets=[0, len(jpeg) // 2, len(jpeg)],
        amazon_y=np.array([1, 0], np.int16),
        amazon_paths=["amazon/images/mug/1.jpg", "amazon/images/bike/1.jpg"],
    )
    source, target = load_pair("office-31/amazon", "office-31/amazon", image_size=6, data_dir=tmp_path)
    assert source.inputs.identify(0) == "amazon/images/mug/1.jpg"
    assert [source.classes[code] for code in source.labels] == ["mug", "bike"]
    assert target.inputs.fetch(np.array([0, 1])).shape == (2, 3, 6, 6)
    for domain, class_name in (("amazon", "pen"), ("amazon", "cup")):
        folder = tmp_path / "office31" / domain / "images" / class_name
        folder.mkdir(parents=True)
        Image.fromarray(np.zeros((4, 4, 3), np.uint8)).save(folder / "1.png")
    assert labelled("office-31/amazon", tmp_path).classes == ("cup", "pen")


@needs_data
@pytest.mark.parametrize(
    ("spec", "length", "shape", "classes"),
    [
        ("mnist:test", 10000, (1, 28, 28), 10),
        ("usps:all", 9298, (1, 16, 16), 10),
        ("office-31-features/dslr", 498, (1280,), 31),
        ("office-home-features/Art", 2427, (1280,), 65),
        ("office-31/webcam", 795, (3, 32, 32), 31),
    ],
)
def test_shared_files(spec: str, length: int, shape: tuple[int, ...], classes: int) -> None:
    domain = load_domain(spec)
    assert isinstance(domain, LabelledDomain)
    assert (len(domain), domain.inputs.shape, len(domain.classes)) == (length, shape, classes)
    assert domain.inputs.fetch(np.array([0, length - 1])).isfinite().all()


@needs_data
def test_shared_files_make_pairs() -> None:
    source, target = load_pair("mnist:test", "svhn:test")
    assert source.inputs.shape == target.inputs.shape == (3, 32, 32)
    source, target = load_pair("cifar-10/nine:test", "stl-10/nine:test")
    assert isinstance(target, LabelledDomain)
    assert source.classes == target.classes
