"""Shards that say one thing and hold another."""

import io
import tarfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from shiftcal.core.errors import InvalidInputError
from shiftcal.data.parquet_shards import ParquetInputs
from shiftcal.data.specs import load_domain
from shiftcal.faces.arrow_scorer import ArrowScorer

PICTURE = io.BytesIO()
Image.fromarray(np.zeros((4, 4, 3), np.uint8)).save(PICTURE, "PNG")


def test_long_labels_are_not_cut_until_classes_are_one(tmp_path: Path) -> None:
    members: dict[str, bytes] = {}
    for number in range(2):
        members |= {f"{number}.png": PICTURE.getvalue(), f"{number}.cls": b"1" * 2000 + str(number).encode()}
    with tarfile.open(tmp_path / "long.tar", "w") as archive:
        for name, content in members.items():
            about = tarfile.TarInfo(name)
            about.size = len(content)
            archive.addfile(about, io.BytesIO(content))
    with pytest.raises(InvalidInputError, match=r"the label '0\.cls' has 2,001 bytes, the limit is 1,000"):
        load_domain(str(tmp_path / "long.tar"))


def test_a_group_with_fewer_rows_than_were_announced(tmp_path: Path) -> None:
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "shard.parquet"
    parquet.write_table(arrow.table({"image": [PICTURE.getvalue()] * 3, "label": [0, 1, 0]}), path)
    found = load_domain(str(path)).inputs
    assert isinstance(found, ParquetInputs)
    announced = [found.groups[0]._replace(num_rows=5)]
    damaged = ParquetInputs(announced, "image", [str(row) for row in range(5)], found.image_format)
    with pytest.raises(InvalidInputError, match=r"as parquet: 5 rows were announced in group 0, it has 3"):
        damaged.read(4)


def test_a_batch_that_is_no_table() -> None:
    pytest.importorskip("pyarrow")
    with pytest.raises(InvalidInputError, match="or a pandas frame, got dict"):
        ArrowScorer(Path("run"))({"width": [1.0]})
