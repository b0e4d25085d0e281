"""How many people chose each class, for pictures of CIFAR-10's test part (CIFAR-10H, Peterson et al., ICCV 2019)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from shiftcal.core.array_reading import open_array_file, read_array_file
from shiftcal.core.errors import DataUnavailableError
from shiftcal.data.catalog.roots import data_roots

_FILES = ("cifar10h.npz", "cifar10h-counts.npy")
_HOMEPAGE = "https://github.com/jcpeterson/cifar-10h"


def read_votes(data_dir: str | Path | None = None) -> NDArray[np.float64]:
    """Votes (N, 10), in the order of CIFAR-10's test pictures.

    Raises:
        DataUnavailableError: no data folder has `cifar10h.npz`, with an array `counts`, or the authors'
            `cifar10h-counts.npy`.
    """
    places = [root / name for root in data_roots(data_dir) for name in _FILES]
    for path in places:
        if path.is_file():
            if path.suffix == ".npy":
                return read_array_file(path).astype(np.float64)
            with open_array_file(path) as file:
                return file["counts"].astype(np.float64)
    listed = "".join(f"\n  - {path}" for path in places)
    raise DataUnavailableError(f"the votes of CIFAR-10H are not there. Looked for:{listed}\nTo get them: {_HOMEPAGE}")
