"""Pictures in tar files, as of WebDataset: `KEY.jpg` (.png, ...) is the picture of a row, `KEY.cls` its label.

A file is indexed once, by its headers; a picture is then one read at its place, in any order.
"""

from __future__ import annotations

import tarfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from shiftcal.core.errors import InvalidInputError
from shiftcal.core.progress import progress_bar
from shiftcal.data.domains import LabelledDomain, UnlabelledDomain
from shiftcal.data.image_files import DEFAULT_IMAGE_SIZE, IMAGE_SUFFIXES, Domain, encode_text_labels
from shiftcal.data.image_formats import ImageFormat
from shiftcal.data.inputs import Inputs, readable
from shiftcal.data.shards import ShardInputs, in_own_channels

_LABEL_SUFFIX = "cls"
_LONGEST_LABEL = 1_000


class TarInputs(ShardInputs):
    """Pictures in tar files."""

    def __init__(
        self,
        paths: Sequence[Path],
        places: NDArray[np.int64],
        names: Sequence[str],
        image_format: ImageFormat,
    ) -> None:
        """`places` (N, 3): the number of the file, where in it the picture begins, and its bytes."""
        super().__init__(names, image_format)
        self.paths = paths
        self.places = places

    @property
    def num_bytes(self) -> int:
        """See `ShardInputs`."""
        return int(self.places[:, 2].sum())

    def read(self, row: int) -> bytes:
        """See `ShardInputs`."""
        shard, start, length = self.places[row].tolist()
        with self.paths[shard].open("rb") as stream:
            stream.seek(start)
            return bytes(stream.read(length))

    def _converted(self, image_format: ImageFormat) -> Inputs:
        return TarInputs(self.paths, self.places, self.names, image_format)


def tar_domain(paths: Sequence[Path], name: str) -> Domain:
    """The pictures of tar files, with labels where each has one.

    Raises:
        InvalidInputError: a file that is no tar file or is compressed, no pictures, or labels for some of them.
    """
    places: list[tuple[int, int, int]] = []
    names: list[str] = []
    keys: list[str] = []
    labels: dict[str, str] = {}
    for shard, path in enumerate(progress_bar(paths, "looking into shards", unit="file")):
        prefix = f"{path.name}/" if len(paths) > 1 else ""
        try:
            with tarfile.open(path, "r:") as archive:
                for member in archive:
                    folder, _, base = member.name.rpartition("/")
                    stem, _, suffix = base.partition(".")
                    if not member.isfile() or base.startswith("."):
                        continue
                    key = f"{shard}/{folder}/{stem}"
                    if base.lower().endswith(IMAGE_SUFFIXES):
                        if member.offset_data + member.size > path.stat().st_size:
                            raise tarfile.ReadError(f"{member.name!r} goes on beyond its end")
                        places.append((shard, member.offset_data, member.size))
                        names.append(readable(prefix + member.name))
                        keys.append(key)
                    elif suffix.lower() == _LABEL_SUFFIX:
                        if member.size > _LONGEST_LABEL:
                            raise tarfile.ReadError(
                                f"the label {member.name!r} has {member.size:,} bytes, the limit is "
                                f"{_LONGEST_LABEL:,}"
                            )
                        stream = archive.extractfile(member)
                        assert stream is not None
                        labels[key] = stream.read().decode("utf-8", "backslashreplace").strip()
        except (tarfile.TarError, OSError, EOFError, ValueError, OverflowError) as error:  # of damaged headers
            raise InvalidInputError(
                f"can't read {str(path)!r} as a tar file that is not compressed: {error}"
            ) from error
    if not names:
        raise InvalidInputError(f"no picture in {name!r}: expected KEY.jpg, .png, ... and perhaps KEY.cls for each")
    inputs = TarInputs(paths, np.array(places, dtype=np.int64), names, ImageFormat(DEFAULT_IMAGE_SIZE, 3))
    of_rows = [labels.get(key) for key in keys]
    if not any(of_rows):
        return UnlabelledDomain(name, in_own_channels(inputs))
    missing = next((row for row, label in enumerate(of_rows) if not label), None)
    if missing is not None:
        raise InvalidInputError(
            f"{name!r}: {names[missing]!r} has no label (.cls) and others have; give all one, or none"
        )
    return LabelledDomain(name, in_own_channels(inputs), *encode_text_labels([str(label) for label in of_rows]))
