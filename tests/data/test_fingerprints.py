from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from shiftcal.data import fingerprints
from shiftcal.data.domains import LabelledDomain, UnlabelledDomain
from shiftcal.data.fingerprints import fingerprint
from shiftcal.data.inputs import ArrayInputs, DatasetInputs, EncodedInputs, FileInputs, ImageFormat, Inputs

FORMAT = ImageFormat(4, 1)


def of(inputs: Inputs) -> str:
    return fingerprint(UnlabelledDomain("any name", inputs))


def test_every_value_of_an_array_counts() -> None:
    values = torch.arange(40.0).reshape(10, 4)
    same = of(ArrayInputs(values.clone()))
    assert of(ArrayInputs(values)) == same
    for row in range(10):
        changed = values.clone()
        changed[row, row % 4] += 1e-5
        assert of(ArrayInputs(changed)) != same
    others = [values.reshape(20, 2), values[:9], values.flip(0), values.double()]
    assert len({of(ArrayInputs(other)) for other in others} | {same}) == 5


def test_labels_and_classes_count_and_names_do_not() -> None:
    labels = np.array([0, 1, 0, 1])
    domain = LabelledDomain("one", ArrayInputs(torch.zeros(4, 2)), labels, ("a", "b"))
    assert fingerprint(replace(domain, name="two")) == fingerprint(domain)
    others = [fingerprint(replace(domain, labels=1 - labels)), fingerprint(replace(domain, classes=("a", "c")))]
    assert len({*others, fingerprint(domain), fingerprint(domain.without_labels())}) == 4


def test_rows_of_a_subset_count() -> None:
    inputs = ArrayInputs(torch.arange(6.0).reshape(3, 2))
    chosen = [np.array(rows, dtype=np.int64) for rows in ([0, 1], [1, 0], [0, 2])]
    assert len({of(inputs.subset(rows)) for rows in chosen}) == 3


@pytest.mark.parametrize("in_full", [True, False])
def test_content_of_image_files_counts_and_their_time_and_place_do_not(
    in_full: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not in_full:
        monkeypatch.setattr(fingerprints, "_MOST_BYTES_IN_FULL", 0)
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        for row in range(3):
            Image.fromarray(np.full((4, 4), 10 * row, np.uint8)).save(tmp_path / folder / f"{row}.bmp")

    def of_folder(name: str) -> str:
        return of(FileInputs(sorted((tmp_path / name).iterdir()), FORMAT, root=tmp_path / name))

    assert of_folder("one") == of_folder("two")
    Image.fromarray(np.full((4, 4), 11, np.uint8)).save(tmp_path / "two" / "1.bmp")
    assert of_folder("one") != of_folder("two")


def test_content_of_packed_images_and_of_datasets_counts() -> None:
    offsets = np.array([0, 2, 5])
    packed = [np.array(content, np.uint8) for content in ([1, 2, 3, 4, 5], [1, 2, 3, 4, 6])]
    assert len({of(EncodedInputs(content, offsets, FORMAT, names=["a", "b"])) for content in packed}) == 2
    tables = [torch.zeros(5, 3), torch.ones(5, 3)]
    assert len({of(DatasetInputs(torch.utils.data.TensorDataset(table))) for table in tables}) == 2
