"""Features of pictures, made once by a network that does not change and kept on the disk.

A set is one array in `<cache>/features/<network>/<rows>-<pictures>.npy`, by the content of both. While it is being
made, there are parts of it in a folder beside, each of them whole: after a kill, who asks next goes on behind them.
"""

from __future__ import annotations

import os
import re
import shutil
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.lib import format as array_format
from numpy.typing import NDArray
from torch import Tensor

from shiftcal.core.errors import InvalidInputError
from shiftcal.core.files import as_output_error, make_folder, remove_abandoned_temporaries, written_whole
from shiftcal.core.locks import lock_when_free, try_lock
from shiftcal.core.progress import progress_bar
from shiftcal.data.catalog.roots import user_cache
from shiftcal.data.fingerprints import content_key
from shiftcal.data.inputs import Inputs
from shiftcal.data.loading import load_ahead

CACHE_VARIABLE = "SHIFTCAL_CACHE"
"""Environment variable with the folder in which features are kept."""

# Names of folders and files that are ours, of all that may be in the user's folder.
_KEY = re.compile(r"[0-9a-f]{32}")
_SET = re.compile(r"\d+-[0-9a-f]{32}\.(npy|parts)")
_LOCK = ".lock"
_PART_ROWS = 1024
_BATCH_ROWS = 32


class Extractor(ABC):
    """A network that does not change, from pictures to features."""

    key: str
    """Equal for networks that give equal features."""
    feature_dim: int

    @abstractmethod
    def extract(self, pictures: Tensor) -> Tensor:
        """Finite features (N, feature_dim) as float32 on the CPU, of pictures (N, C, H, W)."""


class ExtractedInputs(Inputs):
    """Features that are made of pictures whenever they are fetched."""

    def __init__(self, pictures: Inputs, extractor: Extractor) -> None:
        self.pictures = pictures
        self.extractor = extractor
        self.shape = (extractor.feature_dim,)

    def __len__(self) -> int:
        return len(self.pictures)

    def fetch(self, rows: NDArray[np.int64]) -> Tensor:
        """See `Inputs.fetch`."""
        parts = np.array_split(rows, max(1, -(-len(rows) // _BATCH_ROWS)))
        return torch.cat([self.extractor.extract(pictures) for pictures in load_ahead(self.pictures.fetch, parts)])

    def identify(self, row: int) -> str:
        """The name of the picture."""
        return self.pictures.identify(row)


class StoredInputs(Inputs):
    """Features of pictures that are on the disk, and that are read from there row by row."""

    def __init__(self, path: Path, pictures: Inputs, feature_dim: int) -> None:
        self.path = path
        self.pictures = pictures
        self.shape = (feature_dim,)
        len(self._values)  # a damaged file is found now

    @cached_property
    def _values(self) -> NDArray[np.float32]:
        return _read_features(self.path, (len(self.pictures), *self.shape))

    def __getstate__(self) -> dict[str, Any]:
        # Another process opens the file for itself: sent along, all of it would be.
        return {name: value for name, value in self.__dict__.items() if name != "_values"}

    @property
    def in_memory(self) -> bool:
        """The system keeps there what is used."""
        return True

    def __len__(self) -> int:
        return len(self.pictures)

    def fetch(self, rows: NDArray[np.int64]) -> Tensor:
        """See `Inputs.fetch`."""
        return torch.from_numpy(np.array(self._values[rows]))

    def identify(self, row: int) -> str:
        """The name of the picture."""
        return self.pictures.identify(row)


def stored_features(pictures: Inputs, extractor: Extractor, *, num_workers: int = 0) -> StoredInputs:
    """Features of the pictures from the disk, made first if they are not there.

    Raises:
        OutputError: the folder can't be written.
    """
    path = _place(pictures, extractor)
    if not path.is_file():
        parts = path.with_suffix(".parts")
        with _alone(path.parent):
            if not path.is_file():  # another process may have been here meanwhile
                _write_parts(parts, pictures, extractor, num_workers)
                _join(parts, path, (len(pictures), extractor.feature_dim))
            shutil.rmtree(parts, ignore_errors=True)
    return StoredInputs(path, pictures, extractor.feature_dim)


def known_features(pictures: Inputs, extractor: Extractor) -> Inputs:
    """Features of the pictures from the disk if they are there, else made when they are fetched, and not kept."""
    # Only where there is a set of that many rows by this network, the content of the pictures is worth reading.
    candidates = features_folder() / extractor.key
    if any(candidates.glob(f"{len(pictures)}-*.npy")):
        path = _place(pictures, extractor)
        if path.is_file():
            return StoredInputs(path, pictures, extractor.feature_dim)
    return ExtractedInputs(pictures, extractor)


def features_folder() -> Path:
    """Where features are kept: in the folder of `SHIFTCAL_CACHE`, else in the user's cache folder."""
    given = os.environ.get(CACHE_VARIABLE)
    return (Path(given).expanduser() if given else user_cache()) / "features"


def stored_size() -> tuple[int, int]:
    """How many sets of features are kept, whole or not yet, and their bytes."""
    sets = [path for folder in _networks() for path in _sets(folder)]
    files = [file for path in sets for file in (path.glob("*.npy") if path.is_dir() else [path])]
    return len(sets), sum(file.stat().st_size for file in files)


def summary() -> str:
    """The same in a sentence."""
    count, num_bytes = stored_size()
    return (
        f"Features of {count} set{'s' * (count != 1)} of pictures, {num_bytes / 1e6:,.1f} MB, are kept in "
        f"{features_folder()} ({CACHE_VARIABLE} names another folder, shiftcal cache --clear removes them)."
    )


def clear_features() -> None:
    """Remove all features and nothing else; who uses some of them, or makes some, at the moment keeps those."""
    with as_output_error(features_folder()):
        for folder in _networks():
            descriptor = os.open(folder / _LOCK, os.O_CREAT | os.O_RDWR, 0o666)
            try:
                if try_lock(descriptor):
                    for path in _sets(folder):
                        shutil.rmtree(path) if path.is_dir() else path.unlink()
                    remove_abandoned_temporaries(folder)
            finally:
                os.close(descriptor)


def _networks() -> list[Path]:
    return [folder for folder in features_folder().glob("*") if _KEY.fullmatch(folder.name) and folder.is_dir()]


def _sets(folder: Path) -> list[Path]:
    """Of one network: files of whole sets, folders of parts."""
    return [path for path in folder.iterdir() if _SET.fullmatch(path.name) and not path.is_symlink()]


def _place(pictures: Inputs, extractor: Extractor) -> Path:
    return features_folder() / extractor.key / f"{len(pictures)}-{content_key(pictures)[:32]}.npy"


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Have the folder of a network for this process alone: others wait, as they may want the same features."""
    with as_output_error(folder):
        make_folder(folder)
        descriptor = os.open(folder / _LOCK, os.O_CREAT | os.O_RDWR, 0o666)
    try:
        lock_when_free(descriptor)
        yield
    finally:
        os.close(descriptor)


def _write_parts(parts: Path, pictures: Inputs, extractor: Extractor, num_workers: int) -> None:
    starts = [start for start in range(0, len(pictures), _PART_ROWS) if not _part(parts, start).is_file()]
    keys = [
        np.arange(first, min(first + _BATCH_ROWS, start + _PART_ROWS, len(pictures)), dtype=np.int64)
        for start in starts
        for first in range(start, min(start + _PART_ROWS, len(pictures)), _BATCH_ROWS)
    ]
    batches = load_ahead(pictures.fetch, keys, num_workers=num_workers)
    done = len(pictures) - sum(map(len, keys))
    with progress_bar(None, "extracting features", total=len(pictures), initial=done, unit="picture") as bar:
        for start in starts:
            features: list[Tensor] = []
            while sum(map(len, features)) < min(_PART_ROWS, len(pictures) - start):
                features.append(extractor.extract(next(batches)))
                bar.update(len(features[-1]))
            with written_whole(_part(parts, start)) as temporary:
                np.save(temporary, torch.cat(features).numpy(), allow_pickle=False)


def _part(parts: Path, start: int) -> Path:
    return parts / f"{start:012}.npy"


def _join(parts: Path, path: Path, shape: tuple[int, int]) -> None:
    # Not by a memory map: on a full disk writing to one kills the process.
    with written_whole(path) as temporary, temporary.open("wb") as stream:
        header = {"descr": "<f4", "fortran_order": False, "shape": shape}
        array_format.write_array_header_1_0(stream, header)
        for start in range(0, shape[0], _PART_ROWS):
            part = _read_features(_part(parts, start), (min(_PART_ROWS, shape[0] - start), shape[1]))
            stream.write(part.astype("<f4", copy=False).tobytes())


def _read_features(path: Path, shape: tuple[int, ...]) -> NDArray[np.float32]:
    """From the disk, row by row as they are asked for."""
    try:
        values: NDArray[np.float32] = np.load(path, mmap_mode="r", allow_pickle=False)
        if values.shape != shape or values.dtype != np.dtype(np.float32):
            raise ValueError(f"expected float32 {shape}, got {values.dtype} {values.shape}")
    except (ValueError, TypeError, EOFError, OSError) as error:  # cut off, altered or another kind of file
        raise InvalidInputError(
            f"the features in {str(path)!r} are damaged: {error}. Remove that file; they are made again."
        ) from error
    return values
