"""Image files on disk as domains: a folder per class, a folder without labels, or a list file.

A folder is labelled if it holds no image itself and at least two of its sub-folders hold some, however deep: these
sub-folders are the classes. A folder with images in one sub-folder only stands for it (`amazon/images/mug/1.jpg`).
"""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeAlias

import numpy as np

from shiftcal.core.errors import InvalidInputError
from shiftcal.core.progress import progress_bar
from shiftcal.data.domains import LabelledDomain, Rows, UnlabelledDomain
from shiftcal.data.image_decoding import picture_mode
from shiftcal.data.inputs import FileInputs, ImageFormat, readable
from shiftcal.data.labels import class_numbers

Domain: TypeAlias = LabelledDomain | UnlabelledDomain

IMAGE_SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp", ".webp", ".tif", ".tiff", ".ppm", ".pgm", ".gif")
DEFAULT_IMAGE_SIZE = 32
"""Side in pixels that files are brought to where nothing else is asked for."""

GREY_MODES = frozenset({"1", "L", "LA", "I", "I;16", "F"})
_SHOWN_IN_ERRORS = 3
_READERS = 16
# Numbers with more are kept as text: Python itself refuses to read numbers of thousands of digits.
_MOST_DIGITS = 1_000
_MOST_FOLDERS_DEEP = 100


def folder_domain(folder: Path, name: str) -> Domain:
    """The images of a folder, with a label each if the folder has one sub-folder per class.

    Raises:
        InvalidInputError: no image in the folder, or a file that is not the image that its name promises.
    """
    classes = class_folders(folder)
    if len(classes) < 2:
        return unlabelled_folder_domain(folder, name)
    return class_folder_domain(folder, classes, name)


def unlabelled_folder_domain(folder: Path, name: str) -> UnlabelledDomain:
    """All images of a folder and of the folders in it, without labels.

    Raises:
        InvalidInputError: no image in the folder, or a file that is not the image that its name promises.
    """
    paths = find_images(folder)
    if not paths:
        raise InvalidInputError(
            f"no image found in the folder {str(folder)!r}: expected files {' '.join(IMAGE_SUFFIXES)} "
            "in it or in its sub-folders. Files and folders whose name begins with a dot are not looked at."
        )
    return UnlabelledDomain(name, open_images(paths, root=folder))


def class_folder_domain(root: Path, classes: dict[str, Sequence[Path]], name: str) -> LabelledDomain:
    """The images of the given classes, whose order is the order of the domain's classes."""
    paths = [path for members in classes.values() for path in members]
    labels = np.repeat(np.arange(len(classes)), [len(members) for members in classes.values()])
    return LabelledDomain(name, open_images(paths, root=root), labels.astype(np.int64), tuple(classes))


def class_folders(folder: Path) -> dict[str, Sequence[Path]]:
    """The images of each sub-folder that holds some, by its name; empty if the folder itself holds an image."""
    if any(_is_image(entry) for entry in _visible(folder) if entry.is_file()):
        return {}
    found = {entry: find_images(entry) for entry in _visible(folder) if entry.is_dir()}
    classes: dict[Path, Sequence[Path]] = {entry: paths for entry, paths in found.items() if paths}
    if len(classes) == 1:
        return class_folders(next(iter(classes)))
    return {readable(entry.name): paths for entry, paths in classes.items()}


def find_images(folder: Path) -> list[Path]:
    """All image files in a folder and below, sorted; hidden ones are left out and links followed."""
    return sorted(path for path in _walk(folder, frozenset()) if _is_image(path))


def open_images(paths: Sequence[Path], *, root: Path) -> FileInputs:
    """Inputs from image files, once each of them has been seen to begin as an image does.

    They get the default size, and one channel only if all of them are grey.

    Raises:
        InvalidInputError: files that can't be opened as images; names the first ones.
    """
    workers = min(_READERS, (os.cpu_count() or 1) * 2)
    with ThreadPoolExecutor(workers) as pool:
        modes = list(progress_bar(pool.map(picture_mode, paths), "checking images", total=len(paths)))
    broken = [path for path, mode in zip(paths, modes, strict=True) if mode is None]
    if broken:
        shown = ", ".join(repr(str(path)) for path in broken[:_SHOWN_IN_ERRORS])
        raise InvalidInputError(
            f"{len(broken)} of {len(paths)} files can't be opened as images: {shown}"
            f"{', ...' if len(broken) > _SHOWN_IN_ERRORS else ''}. Remove or replace them."
        )
    channels = 1 if GREY_MODES.issuperset(modes) else 3
    return FileInputs(paths, ImageFormat(DEFAULT_IMAGE_SIZE, channels), root=root)


def list_domain(list_file: Path, name: str, *, folder: Path | None = None) -> Domain:
    """The images of a list file with lines `path label`, or `path` alone; paths begin at the list's own folder.

    A path may contain spaces: the label is the last word. Labels that all are whole numbers are kept as such.

    Raises:
        InvalidInputError: an empty list, some lines with a label and some without, missing or broken files.
    """
    root = folder or list_file.parent
    lines = _list_lines(list_file)
    paths = [root / path for path, _ in lines]
    missing = [path for path in paths if not os.path.isfile(path)]  # noqa: PTH113 - false, too, where a name is too long
    if missing:
        raise InvalidInputError(
            f"{len(missing)} of {len(paths)} files of the list {str(list_file)!r} do not exist, "
            f"the first is {str(missing[0])!r}. Paths begin at the folder {str(root)!r}."
        )
    inputs = open_images(paths, root=root)
    labels = [label for _, label in lines if label is not None]
    if not labels:
        return UnlabelledDomain(name, inputs)
    codes, classes = encode_text_labels(labels)
    return LabelledDomain(name, inputs, codes, classes)


def is_image_list(path: Path) -> bool:
    """Whether a text file is a list of images and not a table: its first line names one, or could be no header."""
    if path.suffix.lower() != ".txt":
        return False
    with path.open("rb") as stream:
        first = stream.readline().decode("utf-8-sig", errors="replace").strip().lower()
    names_image = first.endswith(IMAGE_SUFFIXES) or any(f"{suffix} " in first for suffix in IMAGE_SUFFIXES)
    return names_image or not (len(first.split()) > 2 or any(mark in first for mark in ",;\t|"))


def encode_text_labels(labels: Sequence[str]) -> tuple[Rows, tuple[Hashable, ...]]:
    """The position of each label in the sorted classes, and these: whole numbers if all of them are."""
    if all(_is_whole_number(label) for label in set(labels)):
        return class_numbers([int(label) for label in labels])
    return class_numbers(labels)


def _list_lines(list_file: Path) -> list[tuple[str, str | None]]:
    try:
        text = list_file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInputError(f"can't read the image list {str(list_file)!r}: {error}") from error
    numbered = [(number, line.strip()) for number, line in enumerate(text.splitlines(), start=1) if line.strip()]
    if not numbered:
        raise InvalidInputError(f"the image list {str(list_file)!r} is empty: expected lines 'path label' or 'path'")
    lines = [_list_line(line, f"{str(list_file)!r}, line {number}") for number, line in numbered]
    labelled = lines[0][1] is not None
    for (number, line), (_, label) in zip(numbered, lines, strict=True):
        if (label is not None) != labelled:
            raise InvalidInputError(
                f"{str(list_file)!r}, line {number} has {'no label' if labelled else 'a label'} unlike the lines "
                f"before it: {line!r}. Give every line a label, or none."
            )
    return lines


def _list_line(line: str, where: str) -> tuple[str, str | None]:
    if line.lower().endswith(IMAGE_SUFFIXES):
        return line, None
    path, *label = line.rsplit(maxsplit=1)
    if not label:
        raise InvalidInputError(f"{where}: expected 'path label' or the path of an image, got {line!r}")
    return path, label[0]


def _is_whole_number(text: str) -> bool:
    digits = text.removeprefix("-")
    return digits.isascii() and digits.isdigit() and len(digits) <= _MOST_DIGITS


def _visible(folder: Path) -> list[Path]:
    try:
        return sorted(entry for entry in folder.iterdir() if not entry.name.startswith("."))
    except OSError as error:
        raise InvalidInputError(f"can't look into the folder {str(folder)!r}: {error.strerror}") from error


def _is_image(path: Path) -> bool:
    return path.name.lower().endswith(IMAGE_SUFFIXES)


def _walk(folder: Path, above: frozenset[str]) -> Iterator[Path]:
    """Files below a folder; `above` are the real folders on the way, so that a circle of links ends."""
    real = os.path.realpath(folder)
    if real in above:
        return
    if len(above) > _MOST_FOLDERS_DEEP:
        raise InvalidInputError(
            f"expected at most {_MOST_FOLDERS_DEEP} folders in each other, got {str(folder)[:200]!r}"
        )
    for entry in _visible(folder):
        # These two are false, too, of what may not be looked at.
        if os.path.isdir(entry):  # noqa: PTH112
            yield from _walk(entry, above | {real})
        elif os.path.isfile(entry):  # noqa: PTH113
            yield entry
