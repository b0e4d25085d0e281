from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils.data import Dataset

from shiftcal.core.errors import InvalidInputError, OutputError, UserCodeError
from shiftcal.data import feature_store
from shiftcal.data.feature_store import (
    ExtractedInputs,
    Extractor,
    StoredInputs,
    clear_features,
    features_folder,
    known_features,
    stored_features,
    stored_size,
)
from shiftcal.data.inputs import ArrayInputs, DatasetInputs

ROWS = np.arange(10, dtype=np.int64)


class Means(Extractor):
    """Mean of each channel, and how many pictures were looked at; killed after some of them, if asked to be."""

    key = "0" * 32
    feature_dim = 3

    def __init__(self, most: int = 10**9) -> None:
        self.seen = 0
        self.most = most

    def extract(self, pictures: Tensor) -> Tensor:
        if self.seen >= self.most:
            raise KeyboardInterrupt
        self.seen += len(pictures)
        return pictures.mean(dim=(2, 3))


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SHIFTCAL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(feature_store, "_PART_ROWS", 4)
    monkeypatch.setattr(feature_store, "_BATCH_ROWS", 2)
    return tmp_path / "cache"


def pictures(seed: int = 0) -> ArrayInputs:
    return ArrayInputs(torch.rand(10, 3, 4, 4, generator=torch.Generator().manual_seed(seed)))


def test_features_are_made_once_and_read_from_the_disk(cache: Path) -> None:
    extractor = Means()
    stored = stored_features(pictures(), extractor)
    expected = pictures().values.mean(dim=(2, 3))
    assert torch.equal(stored.fetch(ROWS), expected)
    assert torch.equal(stored.fetch(ROWS[[7, 2, 7]]), expected[[7, 2, 7]])
    again = stored_features(pictures(), extractor)
    assert torch.equal(again.fetch(ROWS), expected)
    assert extractor.seen == 10
    assert (len(stored), stored.shape, stored.kind, stored.identify(3)) == (10, (3,), "features", "3")
    assert features_folder() == cache / "features"
    assert len(pickle.dumps(stored)) < 20_000, "the array itself goes along to other processes"
    assert torch.equal(pickle.loads(pickle.dumps(stored)).fetch(ROWS), expected)


def test_other_pictures_or_another_network_have_features_of_their_own() -> None:
    first, other_network = Means(), Means()
    other_network.key = "1" * 32
    stored_features(pictures(), first)
    stored_features(pictures(1), first)
    stored_features(pictures(), other_network)
    assert (first.seen, other_network.seen, stored_size()[0]) == (20, 10, 3)


def test_after_a_kill_whole_parts_are_not_made_again() -> None:
    with pytest.raises(KeyboardInterrupt):
        stored_features(pictures(), Means(most=6))
    assert stored_size()[0] == 1
    extractor = Means()
    stored = stored_features(pictures(), extractor)
    assert extractor.seen == 6, "the first part of four was whole"
    assert torch.equal(stored.fetch(ROWS), pictures().values.mean(dim=(2, 3)))
    assert not list(features_folder().rglob("*.parts"))


def test_pictures_that_cannot_be_read_are_not_blamed_on_the_cache() -> None:
    class Absent(Dataset[Tensor]):
        def __len__(self) -> int:
            return 10

        def __getitem__(self, row: int) -> Tensor:
            if row == 7:
                raise FileNotFoundError("7.png")
            return torch.zeros(3, 4, 4)

    with pytest.raises(UserCodeError, match="item 7 of the dataset Absent raised FileNotFoundError"):
        stored_features(DatasetInputs(Absent()), Means())


def test_predictions_use_what_is_stored_and_store_nothing() -> None:
    extractor = Means()
    streamed = known_features(pictures(), extractor)
    assert isinstance(streamed, ExtractedInputs)
    assert torch.equal(streamed.fetch(ROWS), pictures().values.mean(dim=(2, 3)))
    assert stored_size() == (0, 0)
    stored_features(pictures(), extractor)
    assert isinstance(known_features(pictures(), extractor), StoredInputs)
    assert isinstance(known_features(pictures(1), extractor), ExtractedInputs)


def test_the_size_is_known_and_everything_can_be_removed() -> None:
    clear_features()
    stored_features(pictures(), Means())
    assert stored_size() == (1, 128 + 10 * 3 * 4)
    clear_features()
    assert stored_size() == (0, 0)


def test_a_damaged_file_is_named() -> None:
    path = stored_features(pictures(), Means()).path
    path.write_bytes(path.read_bytes()[:-4])
    with pytest.raises(InvalidInputError, match=r"damaged.*Remove that file"):
        stored_features(pictures(), Means())


def test_a_folder_that_cannot_be_written_is_named(cache: Path) -> None:
    cache.write_text("a file")
    with pytest.raises(OutputError, match=r"can't write to .*cache"):
        stored_features(pictures(), Means())


def test_features_of_another_shape_or_kind_are_damaged_too() -> None:
    path = stored_features(pictures(), Means()).path
    for values in (np.zeros((10, 2), np.float32), np.zeros((9, 3), np.float32), np.zeros((10, 3)), np.zeros(())):
        np.save(path, values)
        with pytest.raises(InvalidInputError, match=r"damaged: expected float32 \(10, 3\), got "):
            stored_features(pictures(), Means())


def test_a_damaged_part_is_named() -> None:
    with pytest.raises(KeyboardInterrupt):
        stored_features(pictures(), Means(most=6))
    (part,) = features_folder().rglob("*.parts/*.npy")
    part.write_bytes(part.read_bytes()[:-1])
    with pytest.raises(InvalidInputError, match=r"000000000000\.npy' are damaged"):
        stored_features(pictures(), Means())
    part.unlink()
    stored = stored_features(pictures(), Means())
    assert torch.equal(stored.fetch(ROWS), pictures().values.mean(dim=(2, 3)))


def test_what_is_not_ours_is_not_removed() -> None:
    """The folder may be one of the user's, with a folder `features` of theirs."""
    stored_features(pictures(), Means())
    theirs = [
        features_folder() / "model.py",
        features_folder() / "old" / "x.npy",
        features_folder() / Means.key / "y",
    ]
    for path in theirs:
        path.parent.mkdir(exist_ok=True)
        path.write_text("mine", encoding="utf-8")
    clear_features()
    assert stored_size() == (0, 0)
    assert [path.read_text(encoding="utf-8") for path in theirs] == ["mine"] * 3


def test_features_that_are_being_made_stay() -> None:
    class Clearing(Means):
        def extract(self, pictures: Tensor) -> Tensor:
            clear_features()
            return super().extract(pictures)

    stored = stored_features(pictures(), Clearing())
    assert torch.equal(stored.fetch(ROWS), pictures().values.mean(dim=(2, 3)))
