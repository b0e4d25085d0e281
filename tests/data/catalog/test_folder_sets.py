from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from shiftcal.core.errors import DataUnavailableError, InvalidInputError
from shiftcal.data.domains import LabelledDomain, UnlabelledDomain
from shiftcal.data.specs import load_domain

needs_timm = pytest.mark.skipif(importlib.util.find_spec("timm") is None, reason="timm is not installed")


def write_images(root: Path, *names: str) -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.zeros((4, 4, 3), np.uint8)).save(root / name)


def labels_of(spec: str, data_dir: Path) -> list[object]:
    domain = load_domain(spec, data_dir=data_dir)
    assert isinstance(domain, LabelledDomain)
    return [domain.classes[code] for code in domain.labels]


@pytest.mark.parametrize(
    ("spec", "folder"),
    [
        ("office-31/amazon", "office31/amazon/images"),
        ("office-31/amazon", "domain_adaptation_images/amazon/images"),
        ("Office_31/Amazon", "Office-31/amazon"),
        ("office-home/Real_World", "OfficeHomeDataset_10072016/Real World"),
        ("visda-2017/validation", "visda-2017/validation"),
        ("pacs/photo", "PACS/photo"),
        ("imagenet:val", "imagenet/val"),
        ("imagenet", "imagenet/train"),
        ("domainnet/real:all", "domainnet/real"),
    ],
)
def test_class_folders_in_the_usual_layouts(spec: str, folder: str, tmp_path: Path) -> None:
    write_images(tmp_path / folder, "mug/1.jpg", "bike/1.jpg", "bike/2.jpg")
    assert labels_of(spec, tmp_path) == ["bike", "bike", "mug"]


def test_absent_set_says_where_and_how(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHIFTCAL_DATA", f"{tmp_path / 'one'}{os.pathsep}{tmp_path / 'two'}")
    with pytest.raises(DataUnavailableError, match=r"'office-31/dslr'.*is not there") as raised:
        load_domain("office-31/dslr")
    for expected in ("one/office-31/dslr", "two/office31_images128.npz", "unpack", "https://", "SHIFTCAL_DATA"):
        assert expected in str(raised.value)


def test_later_data_folder_is_used_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHIFTCAL_DATA", f"{tmp_path / 'one'}{os.pathsep}{tmp_path / 'two'}")
    write_images(tmp_path / "two/pacs/sketch", "dog/1.png", "cat/1.png")
    assert len(load_domain("pacs/sketch")) == 2


def test_visda_test_takes_class_names_from_its_numbers(tmp_path: Path) -> None:
    folder = tmp_path / "visda-2017/test"
    write_images(folder, "trunk00/a.jpg", "trunk01/b.jpg")
    assert isinstance(load_domain("visda-2017/test", data_dir=tmp_path), UnlabelledDomain)
    (folder / "image_list.txt").write_text("trunk00/a.jpg 11\ntrunk01/b.jpg 0\n")
    assert labels_of("visda-2017/test", tmp_path) == ["truck", "aeroplane"]
    (folder / "image_list.txt").write_text("trunk00/a.jpg 12\n")
    with pytest.raises(InvalidInputError, match="12"):
        load_domain("visda-2017/test", data_dir=tmp_path)


def test_domainnet_is_split_by_its_lists(tmp_path: Path) -> None:
    folder = tmp_path / "domainnet"
    write_images(folder / "real", "axe/1.jpg", "axe/2.jpg", "zoo/1.jpg", "zoo/2.jpg")
    with pytest.raises(DataUnavailableError, match=r"real_train\.txt \(real:all needs no list\)"):
        load_domain("domainnet/real", data_dir=tmp_path)
    (folder / "real_train.txt").write_text("real/zoo/2.jpg 344\nreal/axe/1.jpg 5\n")
    assert labels_of("domainnet/real", tmp_path) == ["zoo", "axe"]
    (folder / "real_test.txt").write_text("real/zoo/2.jpg\n")
    with pytest.raises(InvalidInputError, match="expected lines 'path label'"):
        load_domain("domainnet/real:test", data_dir=tmp_path)


def test_mnist_m_from_its_published_layout(tmp_path: Path) -> None:
    folder = tmp_path / "mnist_m"
    for split, digits in (("train", "73"), ("test", "0")):
        names = [f"{row:08d}.png" for row in range(len(digits))]
        write_images(folder / f"mnist_m_{split}", *names)
        lines = [f"{name} {digit}\n" for name, digit in zip(names, digits, strict=True)]
        (folder / f"mnist_m_{split}_labels.txt").write_text("".join(lines))
    domain = load_domain("mnist-m:all", data_dir=tmp_path)
    assert isinstance(domain, LabelledDomain)
    assert domain.classes == tuple(range(10))
    assert domain.labels.tolist() == [7, 3, 0]
    assert domain.inputs.identify(2) == "mnist_m_test/00000000.png"
    assert labels_of("mnist-m", tmp_path) == [7, 3]


def test_mnist_m_without_labels_is_refused(tmp_path: Path) -> None:
    write_images(tmp_path / "mnist_m/mnist_m_train", "0.png")
    (tmp_path / "mnist_m/mnist_m_train_labels.txt").write_text("0.png\n")
    with pytest.raises(InvalidInputError, match="expected lines 'name label'"):
        load_domain("mnist-m", data_dir=tmp_path)


@needs_timm
@pytest.mark.parametrize("parent", [".", "ImageNetV2"])
def test_imagenetv2_numbers_become_synsets(parent: str, tmp_path: Path) -> None:
    write_images(tmp_path / parent / "imagenetv2-matched-frequency-format-val", "0/a.jpeg", "10/b.jpeg", "2/c.jpeg")
    assert labels_of("imagenetv2", tmp_path) == ["n01440764", "n01484850", "n01530575"]


@needs_timm
def test_imagenetv2_refuses_other_folders(tmp_path: Path) -> None:
    write_images(tmp_path / "imagenetv2-top-images-format-val", "0/a.jpeg", "cat/b.jpeg")
    with pytest.raises(InvalidInputError, match="expected folders 0 to 999, got cat"):
        load_domain("imagenetv2/top-images", data_dir=tmp_path)
