from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch

from shiftcal.core.errors import InvalidInputError
from shiftcal.core.seals import opened_sealed, written_sealed


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    path = tmp_path / "values.npz"
    with written_sealed(path) as stream:
        np.savez(stream, values=np.arange(5))
    return path


def test_a_sealed_archive_is_read_here_and_by_others(archive: Path) -> None:
    with opened_sealed(archive) as stream:
        assert np.load(stream)["values"].tolist() == [0, 1, 2, 3, 4]
    with np.load(archive) as arrays, zipfile.ZipFile(archive) as plain:
        assert arrays["values"].tolist() == [0, 1, 2, 3, 4]
        assert plain.testzip() is None
        assert plain.comment.startswith(b"shiftcal sha256 ")


def test_what_torch_writes_can_be_sealed(tmp_path: Path) -> None:
    with written_sealed(tmp_path / "model.pt") as stream:
        torch.save({"weights": torch.arange(1000)}, stream)
    with opened_sealed(tmp_path / "model.pt") as stream:
        assert torch.equal(torch.load(stream, weights_only=True)["weights"], torch.arange(1000))


def test_every_flipped_bit_is_found(archive: Path) -> None:
    whole = archive.read_bytes()
    for bit in range(8 * len(whole)):
        changed = bytearray(whole)
        changed[bit // 8] ^= 1 << bit % 8
        archive.write_bytes(changed)
        with pytest.raises(InvalidInputError, match="it is damaged"), opened_sealed(archive):
            pass


@pytest.mark.parametrize("content", [b"", b"PK", b"words" * 100])
def test_other_files_have_no_checksum(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "other").write_bytes(content)
    with pytest.raises(InvalidInputError, match="no checksum"), opened_sealed(tmp_path / "other"):
        pass
