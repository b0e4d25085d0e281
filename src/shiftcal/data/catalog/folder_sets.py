"""Data sets that are stored as image folders, in the layouts in which they are published."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from shiftcal.core.errors import InvalidInputError
from shiftcal.core.vision_guard import import_timm
from shiftcal.data.catalog.entries import Selection, Source, parts_of, plain
from shiftcal.data.domains import LabelledDomain, Rows
from shiftcal.data.image_files import (
    DEFAULT_IMAGE_SIZE,
    Domain,
    class_folder_domain,
    class_folders,
    folder_domain,
    list_domain,
    unlabelled_folder_domain,
)
from shiftcal.data.inputs import FileInputs, ImageFormat

VISDA_CLASSES = (
    "aeroplane", "bicycle", "bus", "car", "horse", "knife",
    "motorcycle", "person", "plant", "skateboard", "train", "truck",
)  # fmt: skip
"""Classes of VisDA-2017 in the order of the numbers in its lists."""


@dataclass(frozen=True)
class FolderSet(Source):
    """`SET/PART/CLASS/...`: PART is the domain, or the split of a set that has no domains."""

    set_folders: tuple[str, ...]
    """Folder names under which the set is known; case and separators do not matter."""

    def find(self, root: Path, selection: Selection) -> Path | None:
        """See `Source.find`."""
        for name in self.set_folders:
            for folder in folders_named(root, name):
                for part in folders_named(folder, self.part(selection)):
                    return part
        return None

    def expected(self, root: Path, selection: Selection) -> str:
        """See `Source.expected`."""
        return f"{root / self.set_folders[0] / self.part(selection)} (one folder per class in it)"

    def load(self, place: Path, selection: Selection) -> Domain:
        """See `Source.load`."""
        return folder_domain(place, selection.title)

    def part(self, selection: Selection) -> str:
        """Name of the folder of the selected part."""
        return selection.domain or selection.split


class VisdaSet(FolderSet):
    """VisDA-2017: folders of classes for train and validation, for test a list file with numbers."""

    def load(self, place: Path, selection: Selection) -> Domain:
        """See `Source.load`; test has no labels if its list `image_list.txt` is absent."""
        if selection.domain != "test":
            return super().load(place, selection)
        list_file = place / "image_list.txt"
        if not list_file.is_file():
            return unlabelled_folder_domain(place, selection.title)
        listed = list_domain(list_file, selection.title)
        return renamed(listed, VISDA_CLASSES) if isinstance(listed, LabelledDomain) else listed


class ImageNetV2Set(FolderSet):
    """ImageNetV2: folders `0` to `999`, the positions of ImageNet's sorted synsets, which become the classes."""

    def find(self, root: Path, selection: Selection) -> Path | None:
        """See `Source.find`; the three sets lie beside each other or in one folder."""
        for parent in (root, *(folder for name in self.set_folders for folder in folders_named(root, name))):
            for folder in folders_named(parent, self.part(selection)):
                return folder
        return None

    def part(self, selection: Selection) -> str:
        """The name that the published archive unpacks to."""
        return f"imagenetv2-{selection.domain}-format-val"

    def load(self, place: Path, selection: Selection) -> LabelledDomain:
        """See `Source.load`."""
        synsets = tuple(import_timm().data.ImageNetInfo().label_names())
        folders = class_folders(place)
        strange = [name for name in folders if not (name.isdecimal() and int(name) < len(synsets))]
        if strange or not folders:
            raise InvalidInputError(
                f"{str(place)!r}: expected folders 0 to {len(synsets) - 1}, got {', '.join(strange[:3]) or 'none'}"
            )
        numbered = {int(name): paths for name, paths in folders.items()}
        return class_folder_domain(place, {synsets[key]: numbered[key] for key in sorted(numbered)}, selection.title)


class DomainNetSet(FolderSet):
    """DomainNet: folders of classes, and lists `DOMAIN_train.txt` and `DOMAIN_test.txt` that split them."""

    def find(self, root: Path, selection: Selection) -> Path | None:
        """See `Source.find`; a split other than `all` needs its list."""
        place = super().find(root, selection)
        if place is None or selection.split == "all" or _split_list(place, selection).is_file():
            return place
        return None

    def expected(self, root: Path, selection: Selection) -> str:
        """See `Source.expected`."""
        place = root / self.set_folders[0] / selection.domain
        if selection.split == "all":
            return super().expected(root, selection)
        return f"{place} with the list {_split_list(place, selection)} ({selection.domain}:all needs no list)"

    def load(self, place: Path, selection: Selection) -> Domain:
        """See `Source.load`."""
        if selection.split == "all":
            return folder_domain(place, selection.title)
        listed = list_domain(_split_list(place, selection), selection.title)
        if not isinstance(listed, LabelledDomain):
            raise InvalidInputError(f"{str(_split_list(place, selection))!r}: expected lines 'path label'")
        names = {int(code): Path(listed.inputs.identify(row)).parent.name for row, code in enumerate(listed.labels)}
        return LabelledDomain(
            listed.name, listed.inputs, listed.labels, tuple(names[code] for code in range(len(listed.classes)))
        )


@dataclass(frozen=True)
class MnistMFolder(Source):
    """MNIST-M as published: `mnist_m/mnist_m_train/*.png` and `mnist_m/mnist_m_train_labels.txt`, likewise test."""

    folder: str = "mnist_m"

    def find(self, root: Path, selection: Selection) -> Path | None:
        """See `Source.find`."""
        for folder in folders_named(root, self.folder):
            if all((folder / f"mnist_m_{split}_labels.txt").is_file() for split in parts_of(selection)):
                return folder
        return None

    def expected(self, root: Path, selection: Selection) -> str:
        """See `Source.expected`."""
        parts = " and ".join(f"mnist_m_{split}[_labels.txt]" for split in parts_of(selection))
        return f"{root / self.folder} (folder and list {parts})"

    def load(self, place: Path, selection: Selection) -> LabelledDomain:
        """See `Source.load`."""
        paths: list[Path] = []
        labels: list[Rows] = []
        for split in parts_of(selection):
            list_file = place / f"mnist_m_{split}_labels.txt"
            part = list_domain(list_file, selection.title, folder=place / f"mnist_m_{split}")
            if not (isinstance(part, LabelledDomain) and isinstance(part.inputs, FileInputs)):
                raise InvalidInputError(f"{str(list_file)!r}: expected lines 'name label'")
            paths += part.inputs.paths
            labels.append(part.labels_among(range(10)))
        inputs = FileInputs(paths, ImageFormat(DEFAULT_IMAGE_SIZE, 3), root=place)
        return LabelledDomain(selection.title, inputs, np.concatenate(labels), tuple(range(10)))


def renamed(domain: LabelledDomain, classes: Sequence[str]) -> LabelledDomain:
    """The domain whose classes are positions in `classes`, with these as its classes.

    Raises:
        InvalidInputError: a class is not such a position.
    """
    labels = domain.labels_among(range(len(classes)))
    return LabelledDomain(domain.name, domain.inputs, labels, tuple(classes))


def folders_named(parent: Path, name: str) -> list[Path]:
    """Sub-folders of that name, whatever its case and separators."""
    if not parent.is_dir():
        return []
    return sorted(entry for entry in parent.iterdir() if plain(entry.name) == plain(name) and entry.is_dir())


def _split_list(place: Path, selection: Selection) -> Path:
    return place.parent / f"{selection.domain}_{selection.split}.txt"
