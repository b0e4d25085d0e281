"""Arrays as NumPy writes them are read back; whatever else a file holds ends in one clear error."""

import io
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from shiftcal.core import array_reading
from shiftcal.core.array_reading import open_array_file, open_own_file, read_array_file, write_own_file
from shiftcal.core.errors import InvalidInputError, UnknownNameError
from shiftcal.core.limits import ARRAY_BYTES, Limit

ARRAYS: dict[str, Any] = {
    "floats": np.linspace(0, 1, 12).reshape(3, 4),
    "fortran": np.asfortranarray(np.arange(12).reshape(3, 4)),
    "big_endian": np.arange(3, dtype=">i4"),
    "text": np.array(["größe", "b"]),
    "bytes": np.array([b"a", b"bc"]),
    "scalar": np.array(3.0),
    "no_rows": np.zeros((0, 4), np.float32),
}


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_what_numpy_writes_is_read(tmp_path: Path, save: Callable[..., None]) -> None:
    save(tmp_path / "a.npz", **ARRAYS)
    with open_array_file(tmp_path / "a.npz") as file:
        assert file.names == tuple(ARRAYS)
        assert file.describe().startswith("floats float64 (3, 4), fortran int64 (3, 4), big_endian >i4 (3,)")
        for name, expected in ARRAYS.items():
            np.testing.assert_array_equal(file[name], expected)
            assert file[name].dtype == expected.dtype
        with pytest.raises(UnknownNameError, match=r"array of .* 'float'\. Did you mean 'floats'"):
            file["float"]
    for expected in ARRAYS.values():
        np.save(tmp_path / "a.npy", expected)
        np.testing.assert_array_equal(read_array_file(tmp_path / "a.npy"), expected)


def header(text: str, version: bytes = b"\x01\x00") -> bytes:
    content = text.encode().ljust(117) + b"\n"
    return b"\x93NUMPY" + version + len(content).to_bytes(2, "little") + content


def declared(shape: str, dtype: str = "<f4") -> bytes:
    return header(f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}")


def pickled() -> bytes:
    stream = io.BytesIO()
    np.save(stream, np.array([object()]), allow_pickle=True)
    return stream.getvalue()


BAD_ARRAYS = {
    "empty": (b"", "magic"),
    "cut header": (declared("(3,)")[:40], "header"),
    "cut data": (declared("(3,)") + b"\0" * 8, "takes 12 bytes, and it has 8"),
    "too much data": (declared("(3,)") + b"\0" * 16, "takes 12 bytes, and it has 16"),
    "huge": (declared("(1000000000000, 1000)"), "takes 4,000,000,000,000,000 bytes"),
    "overflow": (declared(f"({10**30},)"), "bytes"),
    "endless rows of nothing": (declared("(1000000000000, 0)"), "limit"),
    "endless empty text": (declared("(1000000000000,)", "<U0"), "declares"),
    "negative": (declared("(-1, -3)") + b"\0" * 12, "declares"),
    "no shape": (declared("'x'"), "shape"),
    "open bracket": (declared("(3,"), "read"),
    "no dtype": (declared("(3,)", "<Q9"), "descr"),
    "objects": (pickled(), "pickled objects are never loaded"),
    "other version": (header("{}", b"\x09\x00"), "version"),
    "words": (b"hello, this is no array", "magic"),
}


@pytest.mark.parametrize("case", BAD_ARRAYS)
def test_bad_arrays(tmp_path: Path, case: str) -> None:
    content, words = BAD_ARRAYS[case]
    (tmp_path / "a.npy").write_bytes(content)
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("x.npy", content)
    with pytest.raises(InvalidInputError, match=words):
        read_array_file(tmp_path / "a.npy")
    with open_array_file(tmp_path / "a.npz") as file:
        with pytest.raises(InvalidInputError, match=words):
            file["x"]
        assert file.describe().startswith("x ")


@pytest.mark.parametrize("content", [b"", b"words", b"PK\x03\x04" + b"\0" * 50, b"PK\x05\x06" + b"\xff" * 18])
def test_what_is_no_archive(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.npz").write_bytes(content)
    with (
        pytest.raises(InvalidInputError, match=r"can't read '.*a\.npz' as a \.npz file"),
        open_array_file(tmp_path / "a.npz"),
    ):
        pass


def test_a_single_array_with_the_wrong_name(tmp_path: Path) -> None:
    with (tmp_path / "a.npz").open("wb") as stream:
        np.save(stream, np.zeros(3))
    with pytest.raises(InvalidInputError, match=r"name it \.npy"), open_array_file(tmp_path / "a.npz"):
        pass


def test_a_bomb_is_refused_before_it_unfolds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.zeros(2 * ARRAY_BYTES.default, np.uint8)
    np.savez_compressed(tmp_path / "a.npz", x=values)
    assert (tmp_path / "a.npz").stat().st_size < ARRAY_BYTES.default / 100
    tracemalloc.start()
    with open_array_file(tmp_path / "a.npz") as file:
        with pytest.raises(InvalidInputError, match=r"the array 'x' of .*the limit is .*SHIFTCAL_MAX_ARRAY_BYTES="):
            file["x"]
        assert tracemalloc.get_traced_memory()[1] < 2**20
        tracemalloc.stop()
        monkeypatch.setenv("SHIFTCAL_MAX_ARRAY_BYTES", str(len(values)))
        assert len(file["x"]) == len(values)


def test_every_cut_and_flipped_bit_is_noticed_or_harmless(tmp_path: Path) -> None:
    """Compressed arrays have checksums: what is read without an error is what was written."""
    stream = io.BytesIO()
    expected = np.arange(40, dtype=np.float32)
    np.savez_compressed(stream, x=expected)
    content = stream.getvalue()
    changed = [content[:length] for length in range(0, len(content), 7)]
    for position in range(0, len(content), 3):
        changed.append(content[:position] + bytes([content[position] ^ 16]) + content[position + 1 :])
    path = tmp_path / "a.npz"
    num_read = 0
    for version in changed:
        path.write_bytes(version)
        try:
            with open_array_file(path) as file:
                np.testing.assert_array_equal(file["x"], expected)
                num_read += 1
        except InvalidInputError:
            pass
    assert num_read < len(changed) / 2


def test_own_files_are_read_whatever_they_hold_much_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Density ratios of ten million rows that are all 1 take so little that they look like a bomb."""
    monkeypatch.setattr(array_reading, "ARRAY_BYTES", Limit("SHIFTCAL_MAX_ARRAY_BYTES", 10_000, "bytes"))
    many, few = np.ones(10_000), np.ones(1_000)
    np.savez_compressed(tmp_path / "other.npz", many=many)
    with open_array_file(tmp_path / "other.npz") as file, pytest.raises(InvalidInputError, match="limit"):
        file["many"]
    write_own_file(tmp_path / "own.npz", {"many": many, "few": few})
    assert (tmp_path / "own.npz").stat().st_size < many.nbytes + 2_000
    with open_own_file(tmp_path / "own.npz", "test") as file:
        np.testing.assert_array_equal(file.read("many", "f", None), many)
        np.testing.assert_array_equal(file.read("few", "f", 1_000), few)
        with pytest.raises(InvalidInputError, match=r"'few' of kind i or u and shape \(any, 2\), got float64"):
            file.read("few", "iu", None, 2)


def test_what_is_wrong_with_an_own_file_names_it(tmp_path: Path) -> None:
    write_own_file(tmp_path / "own.npz", {"about": np.array("{")})
    named = r"own\.npz' is not a test file of shiftcal: expected 'about' as JSON"
    with (
        pytest.raises(InvalidInputError, match=named),
        open_own_file(tmp_path / "own.npz", "test") as file,
    ):
        file.read_json("about")
