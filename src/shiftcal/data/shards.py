"""Pictures packed into files of many, read by row number."""

from __future__ import annotations

import glob
import io
import re
from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from torch import Tensor

from shiftcal.core.errors import InvalidInputError, shown
from shiftcal.data.image_decoding import decode_picture, picture_mode
from shiftcal.data.image_files import GREY_MODES
from shiftcal.data.image_formats import ImageFormat
from shiftcal.data.inputs import DecodedInputs, Inputs

_MOST_SHARDS = 100_000
_RANGE = re.compile(r"\{(\d+)\.\.(\d+)\}")
# Pictures that are looked at to tell grey from colour; the others are met when they are decoded.
_LOOKED_AT = 64


class ShardInputs(DecodedInputs):
    """Encoded pictures in files of many."""

    def __init__(self, names: Sequence[str], image_format: ImageFormat) -> None:
        super().__init__(image_format)
        self.names = names

    @property
    @abstractmethod
    def num_bytes(self) -> int:
        """Of all pictures, about."""

    @abstractmethod
    def read(self, row: int) -> bytes:
        """A picture as it is stored."""

    def __len__(self) -> int:
        return len(self.names)

    def identify(self, row: int) -> str:
        """The name of the picture in its shard, with that of the shard where there are several."""
        return self.names[row]

    def _decode(self, row: int) -> Tensor:
        return decode_picture(io.BytesIO(self.read(row)), self.image_format, name=self.names[row])


def in_own_channels(inputs: ShardInputs) -> Inputs:
    """The same as one channel, if (a sample of) the pictures are all grey."""
    rows = np.unique(np.linspace(0, len(inputs) - 1, min(len(inputs), _LOOKED_AT)).astype(np.int64))
    modes = {picture_mode(io.BytesIO(inputs.read(int(row))), inputs.names[row]) for row in rows}
    return inputs.in_format(ImageFormat(inputs.image_format.size, 1)) if GREY_MODES.issuperset(modes) else inputs


def names_several(spec: str) -> bool:
    """Whether a spec stands for several files: it has `*`, `?`, `[...]` or `{FIRST..LAST}` in it."""
    return glob.has_magic(spec) or _RANGE.search(spec) is not None


def shard_paths(spec: str) -> list[Path]:
    """The files that a spec of shards names: `FILE.tar`, `train-*.tar`, `train-{000..120}.tar`, the same of parquet.

    Raises:
        InvalidInputError: one of them, or any, is not there.
    """
    if Path(spec).expanduser().is_file():
        return [Path(spec).expanduser()]
    patterns = [spec]
    numbers = _RANGE.search(spec)
    if numbers is not None:
        first, last = (int(end) for end in numbers.groups())
        if not 0 <= last - first < _MOST_SHARDS:
            raise InvalidInputError(f"{shown(spec)}: expected {{FIRST..LAST}} of at most {_MOST_SHARDS:,} shards")
        width = len(numbers[1])
        patterns = [
            f"{spec[: numbers.start()]}{each:0{width}}{spec[numbers.end() :]}" for each in range(first, last + 1)
        ]
    paths = []
    for pattern in patterns:
        found = sorted(glob.glob(str(Path(pattern).expanduser())))  # noqa: PTH207 - the pattern may be an absolute path
        if not found:
            raise InvalidInputError(f"no file {shown(pattern)} of the shards {shown(spec)}")
        paths += [Path(each) for each in found]
    return paths
