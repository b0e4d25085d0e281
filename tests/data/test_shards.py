from __future__ import annotations

import io
import json
import pickle
import tarfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from shiftcal.core.errors import InvalidInputError, UnknownNameError
from shiftcal.data.domains import LabelledDomain, UnlabelledDomain
from shiftcal.data.fingerprints import content_key, fingerprint
from shiftcal.data.shards import ShardInputs, shard_paths
from shiftcal.data.specs import load_domain, load_pair
from shiftcal.data.table_encoder import TableColumns, TableInputs

ROWS = np.arange(6, dtype=np.int64)


def encoded(number: int, *, grey: bool = False) -> bytes:
    stream = io.BytesIO()
    picture = np.full((4, 4), 20 * number, np.uint8) if grey else np.full((4, 4, 3), 20 * number, np.uint8)
    Image.fromarray(picture).save(stream, "PNG")
    return stream.getvalue()


def write_tar(path: Path, members: Mapping[str, bytes], mode: Any = "w") -> None:
    with tarfile.open(path, mode) as archive:
        for name, content in members.items():
            about = tarfile.TarInfo(name)
            about.size = len(content)
            archive.addfile(about, io.BytesIO(content))


def write_shards(folder: Path, *, grey: bool = False) -> None:
    """Two shards of three pictures, in classes 7 and 3."""
    for shard in (0, 1):
        members: dict[str, bytes] = {}
        for number in range(3 * shard, 3 * shard + 3):
            members |= {
                f"set/{number}.png": encoded(number, grey=grey),
                f"set/{number}.cls": f"{7 - 4 * (number % 2)}\n".encode(),
            }
        write_tar(folder / f"train-00{shard}.tar", {**members, "set/._0.png": b"of a Mac", "set/about.json": b"{}"})


def write_parquet(path: Path, columns: Mapping[str, Any], classes: list[str] | None = None, group: int = 2) -> None:
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    table = arrow.table(dict(columns))
    if classes is not None:
        about = {"info": {"features": {"label": {"names": classes, "_type": "ClassLabel"}}}}
        table = table.replace_schema_metadata({"huggingface": json.dumps(about)})
    parquet.write_table(table, path, row_group_size=group)


def values(inputs: Any, rows: Any = ROWS) -> list[int]:
    """The number of each picture, by its brightness."""
    return [round(float(picture.mean()) * 255 / 20) for picture in inputs.fetch(rows)]


@pytest.mark.parametrize("spec", ["train-*.tar", "train-{000..001}.tar", "train-00?.tar"])
def test_tar_shards_by_row_number_in_any_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spec: str) -> None:
    monkeypatch.chdir(tmp_path)
    write_shards(tmp_path)
    domain = load_domain(spec)
    assert isinstance(domain, LabelledDomain)
    assert (domain.classes, domain.labels.tolist()) == ((3, 7), [1, 0, 1, 0, 1, 0])
    assert values(domain.inputs) == list(range(6))
    assert values(domain.inputs, ROWS[[5, 0, 3, 3]]) == [5, 0, 3, 3]
    assert domain.inputs.shape == (3, 32, 32)
    assert domain.inputs.identify(4) == "train-001.tar/set/4.png"
    assert values(pickle.loads(pickle.dumps(domain.inputs))) == list(range(6))
    source, target = load_pair(spec, f"unlabelled:{spec}", image_size=8)
    assert isinstance(target, UnlabelledDomain)
    assert source.inputs.shape == target.inputs.shape == (3, 8, 8)


def test_grey_pictures_in_one_tar_file_without_labels(tmp_path: Path) -> None:
    path = tmp_path / "all.tar"
    write_tar(path, {f"{number}.jpg": encoded(number, grey=True) for number in range(6)})
    domain = load_domain(str(path))
    assert isinstance(domain, UnlabelledDomain)
    assert domain.inputs.shape == (1, 32, 32)
    assert domain.inputs.identify(4) == "4.jpg"
    assert values(domain.inputs) == list(range(6))


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"about.txt": b"nothing"}, "no picture in"),
        ({"0.png": encoded(0), "0.cls": b"1", "1.png": encoded(1)}, r"'1.png' has no label .* others have"),
        ({"0.png": b"no picture"}, r"can't decode the image '0.png'"),
    ],
)
def test_tar_files_that_cannot_be_used(tmp_path: Path, members: dict[str, bytes], message: str) -> None:
    write_tar(tmp_path / "bad.tar", members)
    with pytest.raises(InvalidInputError, match=message):
        load_domain(tmp_path / "bad.tar").inputs.fetch(ROWS[:1])


def test_damaged_compressed_and_absent_tar_files(tmp_path: Path) -> None:
    write_shards(tmp_path)
    whole = (tmp_path / "train-000.tar").read_bytes()
    (tmp_path / "short.tar").write_bytes(whole[:700])
    write_tar(tmp_path / "small.tar", {"0.png": encoded(0)}, "w:gz")
    (tmp_path / "empty.tar").write_bytes(b"")
    for name in ("short", "small", "empty"):
        with pytest.raises(InvalidInputError, match=f"{name}.*that is not compressed"):
            load_domain(tmp_path / f"{name}.tar")
    for spec in ("none.tar", "none-*.tar", "train-{000..002}.tar", "train-{9..1}.tar", "train-{0..999999999}.tar"):
        with pytest.raises(InvalidInputError, match=r"no file|at most 100,000"):
            shard_paths(str(tmp_path / spec))


@pytest.mark.parametrize("form", ["bytes", "struct"])
def test_parquet_shards(tmp_path: Path, form: str) -> None:
    for shard in (0, 1):
        numbers = range(3 * shard, 3 * shard + 3)
        pictures = [encoded(number) for number in numbers]
        column = pictures if form == "bytes" else [{"bytes": each, "path": "x.png"} for each in pictures]
        columns = {"image": column, "label": [number % 2 for number in numbers]}
        write_parquet(tmp_path / f"train-{shard}.parquet", columns, ["cat", "dog"])
    domain = load_domain(str(tmp_path / "train-*.parquet"))
    assert isinstance(domain, LabelledDomain)
    assert [domain.classes[code] for code in domain.labels] == ["cat", "dog"] * 3
    assert values(domain.inputs) == list(range(6))
    assert values(domain.inputs, ROWS[[5, 0, 3, 3]]) == [5, 0, 3, 3]
    assert domain.inputs.identify(4) == "train-1.parquet:1"
    assert values(pickle.loads(pickle.dumps(domain.inputs))) == list(range(6))


def test_labels_of_another_column_and_files_that_are_tables(tmp_path: Path) -> None:
    path, table = tmp_path / "pictures.parquet", tmp_path / "table.parquet"
    write_parquet(path, {"photo": [encoded(number) for number in range(6)], "kind": ["b", "a"] * 3})
    assert isinstance(load_domain(path), UnlabelledDomain)
    domain = load_domain(path, table=TableColumns(label="kind"))
    assert isinstance(domain, LabelledDomain)
    assert domain.classes == ("a", "b")
    with pytest.raises(UnknownNameError, match=r"kimd.*Did you mean 'kind'"):
        load_domain(path, table=TableColumns(label="kimd"))
    write_parquet(table, {"x": [1.0, 2.0, 3.0], "label": [0, 1, 1]})
    assert isinstance(load_domain(table).inputs, TableInputs)
    write_parquet(path, {"image": [encoded(0), encoded(1)], "label": [0, None]})
    with pytest.raises(InvalidInputError, match="1 of 2 labels in column 'label' are missing"):
        load_domain(path)
    write_parquet(path, {"image": [encoded(0), None]})
    with pytest.raises(InvalidInputError, match="expected the bytes of a picture in 'image', got none"):
        load_domain(path)
    path.write_bytes(b"PAR1 and no more")
    with pytest.raises(InvalidInputError, match=r"can't read .* as parquet"):
        load_domain(path)


def test_the_content_of_shards_counts(tmp_path: Path) -> None:
    members = {f"{number}.png": encoded(number) for number in range(6)}
    keys = []
    for number, changed in enumerate([{}, {}, {"3.png": encoded(2)}, {"6.png": encoded(6)}]):
        write_tar(tmp_path / f"{number}.tar", {**members, **changed})
        domain = load_domain(tmp_path / f"{number}.tar")
        assert isinstance(domain, UnlabelledDomain)
        assert isinstance(domain.inputs, ShardInputs)
        keys.append((content_key(domain.inputs), fingerprint(replace(domain, name="any"))))
    assert keys[0] == keys[1]
    assert len(set(keys)) == 3


def test_pictures_of_shards_are_as_those_of_files(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    folder = tmp_path / "pictures"
    folder.mkdir()
    for number in range(3):
        Image.fromarray(generator.integers(0, 255, (50, 40, 3), np.uint8)).save(folder / f"{number}.jpg")
    write_tar(tmp_path / "all.tar", {path.name: path.read_bytes() for path in sorted(folder.iterdir())})
    shard, files = (load_domain(place).inputs for place in (tmp_path / "all.tar", folder))
    assert torch.equal(shard.fetch(ROWS[:3]), files.fetch(ROWS[:3]))
