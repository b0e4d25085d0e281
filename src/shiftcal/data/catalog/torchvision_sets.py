"""Data sets in the files of torchvision's data set classes, which check and, if allowed, download them."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from shiftcal.core.array_reading import Array
from shiftcal.core.errors import DataUnavailableError
from shiftcal.core.vision_guard import import_torchvision
from shiftcal.data.array_files import array_inputs, encode_array_labels
from shiftcal.data.catalog.array_sets import joined
from shiftcal.data.catalog.entries import Selection, Source, parts_of
from shiftcal.data.domains import LabelledDomain


@dataclass(frozen=True)
class TorchvisionSet(Source):
    """A class of `torchvision.datasets`; its root is the data folder or the folder of the set's name in it."""

    class_name: str
    files: dict[str, str]
    """For each split a file that is there if the split is."""
    classes: tuple[Hashable, ...]
    read: Callable[[Any], tuple[Array, Array]]
    """Images (N, H, W[, C]) and labels of an instance of the class."""
    split_by_name: bool = False
    """Whether the class takes `split="train"` instead of `train=True`."""
    can_download = True

    def find(self, root: Path, selection: Selection) -> Path | None:
        """See `Source.find`."""
        for folder in (root, root / selection.name):
            if all((folder / self.files[split]).is_file() for split in parts_of(selection)):
                return folder
        return None

    def expected(self, root: Path, selection: Selection) -> str:
        """See `Source.expected`."""
        files = " and ".join(self.files[split] for split in parts_of(selection))
        return f"{root} or {root / selection.name} (torchvision's {files})"

    def load(self, place: Path, selection: Selection) -> LabelledDomain:
        """See `Source.load`."""
        return self._read(place, selection, download=False)

    def download(self, root: Path, selection: Selection) -> LabelledDomain:
        """See `Source.download`."""
        folder = root / selection.name
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise DataUnavailableError(
                f"can't download {selection.name!r} to {str(folder)!r}: {error.strerror}. Choose another data folder."
            ) from error
        return self._read(folder, selection, download=True)

    def _read(self, folder: Path, selection: Selection, *, download: bool) -> LabelledDomain:
        dataset_class = getattr(import_torchvision().datasets, self.class_name)
        parts = []
        for split in parts_of(selection):
            chosen = {"split": split} if self.split_by_name else {"train": split == "train"}
            try:
                dataset = dataset_class(str(folder), download=download, **chosen)
            except (RuntimeError, OSError) as error:  # a wrong checksum, or no network
                raise DataUnavailableError(
                    f"torchvision can't {'download' if download else 'use'} {selection.name!r} in {str(folder)!r}: "
                    f"{error}"
                ) from error
            parts.append(self._domain(dataset, selection))
        return parts[0] if len(parts) == 1 else joined(parts)

    def _domain(self, dataset: Any, selection: Selection) -> LabelledDomain:
        images, labels = self.read(dataset)
        codes, classes = encode_array_labels(labels, self.classes, f"labels of {selection.title}")
        return LabelledDomain(selection.title, array_inputs(images, f"images of {selection.title}"), codes, classes)


def read_targets(dataset: Any) -> tuple[Array, Array]:
    """Images (N, H, W[, C]) in `data`, labels in `targets`: MNIST, USPS, CIFAR-10."""
    return np.asarray(dataset.data), np.asarray(dataset.targets)


def read_channels_first(dataset: Any) -> tuple[Array, Array]:
    """Images (N, C, H, W) in `data`, labels in `labels`: SVHN, STL-10."""
    return np.ascontiguousarray(dataset.data.transpose(0, 2, 3, 1)), np.asarray(dataset.labels)
