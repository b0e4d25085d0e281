"""Tiny data sets in torchvision's own files. Where torchvision checks sums, the test gives it those of its files."""

from __future__ import annotations

import bz2
import hashlib
import importlib.util
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from shiftcal.core.errors import DataUnavailableError
from shiftcal.core.vision_guard import import_torchvision
from shiftcal.data.domains import LabelledDomain
from shiftcal.data.inputs import ArrayInputs
from shiftcal.data.specs import load_domain

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("torchvision") is None, reason="torchvision is not installed"
)

LABELS = np.array([3, 0, 9], dtype=np.uint8)


def pixels(*shape: int) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    return np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)


def load(spec: str, data_dir: Path) -> tuple[LabelledDomain, torch.Tensor]:
    domain = load_domain(spec, data_dir=data_dir)
    assert isinstance(domain, LabelledDomain)
    assert isinstance(domain.inputs, ArrayInputs)
    return domain, domain.inputs.values


def checksum(path: Path) -> str:
    return hashlib.md5(path.read_bytes()).hexdigest()


def write_idx(path: Path, values: np.ndarray[Any, np.dtype[np.uint8]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    header = bytes([0, 0, 8, values.ndim]) + b"".join(side.to_bytes(4, "big") for side in values.shape)
    path.write_bytes(header + values.tobytes())


@pytest.mark.parametrize("folder", [".", "mnist"])
def test_mnist_from_idx_files(folder: str, tmp_path: Path) -> None:
    images = pixels(3, 28, 28)
    for part, scale in (("train", 1), ("t10k", 2)):
        write_idx(tmp_path / folder / f"MNIST/raw/{part}-images-idx3-ubyte", images // scale)
        write_idx(tmp_path / folder / f"MNIST/raw/{part}-labels-idx1-ubyte", LABELS)
    domain, values = load("mnist", tmp_path)
    assert (domain.name, domain.classes, domain.labels.tolist()) == ("mnist:train", tuple(range(10)), [3, 0, 9])
    assert np.array_equal(values[:, 0].numpy(), images)
    assert np.array_equal(load("mnist:test", tmp_path)[1][:, 0].numpy(), images // 2)
    assert load("mnist:all", tmp_path)[0].labels.tolist() == [3, 0, 9, 3, 0, 9]


def test_usps_from_its_text_files(tmp_path: Path) -> None:
    line = "4 " + " ".join(f"{pixel + 1}:{1.0 if pixel == 0 else -1.0}" for pixel in range(256))
    (tmp_path / "usps.bz2").write_bytes(bz2.compress(line.encode()))
    domain, values = load("usps", tmp_path)
    assert domain.labels.tolist() == [3]
    assert values.shape == (1, 1, 16, 16)
    assert values[0, 0, 0, 0] == values.sum() == 255


def test_svhn_from_its_matrix_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from scipy.io import savemat

    images = pixels(3, 32, 32, 3)
    path = tmp_path / "train_32x32.mat"
    savemat(path, {"X": images.transpose(1, 2, 3, 0), "y": np.array([[3], [10], [9]])})
    monkeypatch.setitem(
        import_torchvision().datasets.SVHN.split_list, "train", ["no address", path.name, checksum(path)]
    )
    domain, values = load("svhn", tmp_path)
    assert domain.labels.tolist() == [3, 0, 9]
    assert np.array_equal(values.permute(0, 2, 3, 1).numpy(), images)


def write_cifar(folder: Path, images: np.ndarray[Any, np.dtype[np.uint8]]) -> None:
    folder.mkdir()
    for name in ("data_batch_1", "test_batch"):
        (folder / name).write_bytes(pickle.dumps({"data": images.reshape(3, -1), "labels": LABELS.tolist()}))
    (folder / "batches.meta").write_bytes(pickle.dumps({"label_names": ["unused"]}))


def test_cifar_from_its_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    images = pixels(3, 3, 32, 32)
    folder = tmp_path / "cifar-10-batches-py"
    write_cifar(folder, images)
    dataset = import_torchvision().datasets.CIFAR10
    monkeypatch.setattr(dataset, "train_list", [["data_batch_1", checksum(folder / "data_batch_1")]])
    monkeypatch.setattr(dataset, "test_list", [["test_batch", checksum(folder / "test_batch")]])
    monkeypatch.setitem(dataset.meta, "md5", checksum(folder / "batches.meta"))
    domain, values = load("cifar-10", tmp_path)
    assert [domain.classes[code] for code in domain.labels] == ["cat", "airplane", "truck"]
    assert np.array_equal(values.numpy(), images)


def test_wrong_checksum_is_refused(tmp_path: Path) -> None:
    write_cifar(tmp_path / "cifar-10-batches-py", pixels(3, 3, 32, 32))
    with pytest.raises(DataUnavailableError, match=r"torchvision can't use 'cifar-10'.*corrupted"):
        load_domain("cifar-10", data_dir=tmp_path)


def test_stl_from_its_binary_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    images = pixels(3, 3, 96, 96)
    folder = tmp_path / "stl-10" / "stl10_binary"
    folder.mkdir(parents=True)
    (folder / "train_X.bin").write_bytes(images.transpose(0, 1, 3, 2).tobytes())
    (folder / "train_y.bin").write_bytes((LABELS + 1).tobytes())
    dataset = import_torchvision().datasets.STL10
    monkeypatch.setattr(
        dataset, "train_list", [[name, checksum(folder / name)] for name in ("train_X.bin", "train_y.bin")]
    )
    monkeypatch.setattr(dataset, "test_list", [])
    domain, values = load("stl-10", tmp_path)
    assert [domain.classes[code] for code in domain.labels] == ["cat", "airplane", "truck"]
    assert np.array_equal(values.numpy(), images)


def test_download_needs_leave_and_failures_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Offline:
        def __init__(self, root: str, *, train: bool, download: bool) -> None:
            assert (Path(root), train, download) == (tmp_path / "mnist", True, True)
            raise RuntimeError("no network")

    monkeypatch.delenv("SHIFTCAL_DOWNLOAD", raising=False)
    monkeypatch.setattr(import_torchvision().datasets, "MNIST", Offline)
    with pytest.raises(DataUnavailableError, match="allow the download"):
        load_domain("mnist", data_dir=tmp_path)
    with pytest.raises(DataUnavailableError, match=r"can't download 'mnist'.*no network"):
        load_domain("mnist", data_dir=tmp_path, download=True)


def test_download_into_a_file_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(DataUnavailableError, match=r"can't download 'usps'.*Choose another data folder"):
        load_domain("usps", data_dir=tmp_path / "file", download=True)
