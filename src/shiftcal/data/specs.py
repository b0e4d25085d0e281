"""From a spec, the text by which a user names data, to a domain.

Tried in this order:

| spec | what it names |
|---|---|
| `FOLDER` | a folder with one sub-folder per class: no image directly in it, two sub-folders or more with images |
| `FOLDER` | any other folder with images in it or below: no labels |
| `LIST.txt`, `LIST.lst` | lines `path label` or `path`, paths beginning at the list's folder |
| `FILE.npz` | arrays x and y, or X and y, images and labels, features and labels, train_x and train_y, ... |
| `FILE.npz:PREFIX` | arrays PREFIX_x and PREFIX_y |
| `FILE.npz#x=NAME,y=NAME` | arrays of any names; `classes=NAME` may follow |
| `FILE.npy` | inputs without labels |
| `NAME[/DOMAIN][:SPLIT]` | a data set of the catalog: `digits/uci`, `svhn:test`, `office-31/amazon` |
| `unlabelled:SPEC` | any of these without its labels; a folder with everything below it |
"""

from __future__ import annotations

import dataclasses
import difflib
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from shiftcal.core.array_reading import open_array_file
from shiftcal.core.errors import InvalidInputError, UnknownNameError, shown
from shiftcal.data.array_files import (
    ArrayNames,
    array_domain,
    default_names,
    prefixed_domain,
    single_array_domain,
)
from shiftcal.data.catalog.registry import CATALOG, find_entry, load_selection
from shiftcal.data.domains import LabelledDomain
from shiftcal.data.image_files import (
    DEFAULT_IMAGE_SIZE,
    Domain,
    folder_domain,
    list_domain,
    unlabelled_folder_domain,
)
from shiftcal.data.image_formats import ImageFormat, check_image_size
from shiftcal.data.inputs import Inputs

SPEC_FORMS = (
    "a folder with one sub-folder per class; a folder of images; an image list LIST.txt; arrays FILE.npz, "
    "FILE.npz:PREFIX or FILE.npz#x=NAME,y=NAME; inputs FILE.npy; a data set NAME[/DOMAIN][:SPLIT] "
    "(see: shiftcal list datasets); unlabelled:SPEC"
)
"""The forms of a spec, for messages."""

_UNLABELLED = ("unlabelled:", "unlabeled:")
_LIST_SUFFIXES = (".txt", ".lst")
_CHOSEN_ARRAYS = re.compile(r"(?P<path>.+\.npz)(?P<mark>[:#])(?P<choice>.+)", re.IGNORECASE)
_ARRAY_KEYS = ("x", "y", "classes")


class UnknownSpecError(UnknownNameError):
    """A spec that is neither a path that exists nor the name of a data set."""

    def __init__(self, spec: str, name: str) -> None:
        super().__init__("data set", name, CATALOG)
        self.args = (f"{self.args[0]} No file or folder {shown(spec)} exists either. A spec is {SPEC_FORMS}.",)


def load_domain(
    spec: str | Path,
    *,
    image_format: ImageFormat | None = None,
    data_dir: str | Path | None = None,
    download: bool = False,
) -> Domain:
    """The data that a spec names, with images brought to `image_format` if one is given.

    Without one, images in memory stay as they are and files get the default size.

    Raises:
        InvalidInputError: the spec names nothing, or what it names can't be used.
        DataUnavailableError: a data set of the catalog that is not there.
        MissingDependencyError: a package that reads the data is not installed.
    """
    if not isinstance(spec, (str, Path)):
        raise InvalidInputError(f"expected a spec, got {shown(spec)}. A spec is {SPEC_FORMS}.")
    domain = _load(str(spec).strip(), data_dir, download)
    return domain if image_format is None else _in_format(domain, image_format)


def load_pair(
    source_spec: str | Path,
    target_spec: str | Path,
    *,
    image_size: int | None = None,
    default_image_size: int = DEFAULT_IMAGE_SIZE,
    data_dir: str | Path | None = None,
    download: bool = False,
) -> tuple[LabelledDomain, Domain]:
    """A labelled source and a target, with or without labels, whose inputs have one shape.

    Images get `image_size`, or else the larger of the two sizes, that of files being `default_image_size`; and RGB
    unless both are grey. What already has this format is not copied.

    Raises:
        InvalidInputError: also if the source has no labels or a single class, if the target has classes that the
            source lacks, or if the inputs of both can't have one shape.
        DataUnavailableError: a data set of the catalog that is not there.
        MissingDependencyError: a package that reads the data is not installed.
    """
    if image_size is not None:
        check_image_size(image_size)
    source = _checked_source(load_domain(source_spec, data_dir=data_dir, download=download))
    target = load_domain(target_spec, data_dir=data_dir, download=download)
    with_features = "features" in (source.inputs.kind, target.inputs.kind)
    if with_features:
        _check_equal_shapes(source, target)
    _check_target_classes(source, target)
    if with_features:
        return source, target
    size = image_size or max(_own_size(domain.inputs, default_image_size) for domain in (source, target))
    shared = ImageFormat(size, max(source.inputs.shape[0], target.inputs.shape[0]))
    return dataclasses.replace(source, inputs=source.inputs.in_format(shared)), _in_format(target, shared)


def _load(spec: str, data_dir: str | Path | None, download: bool) -> Domain:
    if spec.startswith(_UNLABELLED):
        return _load_unlabelled(spec.partition(":")[2], data_dir, download)
    path = _as_path(spec)
    if path.is_dir():
        return folder_domain(path, spec)
    chosen = None if path.exists() else _CHOSEN_ARRAYS.fullmatch(spec)
    if chosen is not None:
        return _load_chosen_arrays(_existing(chosen["path"]), chosen["mark"], chosen["choice"], spec)
    read = _FILE_READERS.get(path.suffix.lower())
    if read is not None:
        return read(_existing(spec), spec)
    if path.exists():
        raise InvalidInputError(f"can't tell what kind of data the file {shown(spec)} is. A spec is {SPEC_FORMS}.")
    return _load_named(spec, data_dir, download)


def _load_unlabelled(spec: str, data_dir: str | Path | None, download: bool) -> Domain:
    if spec.startswith(_UNLABELLED):
        raise InvalidInputError(f"expected unlabelled: once in a spec, got it again before {shown(spec)}")
    path = _as_path(spec)
    if path.is_dir():
        return unlabelled_folder_domain(path, spec)
    domain = _load(spec, data_dir, download)
    return domain.without_labels() if isinstance(domain, LabelledDomain) else domain


def _load_array_file(path: Path, spec: str) -> Domain:
    with open_array_file(path) as file:
        return array_domain(file, default_names(file), spec)


def _load_chosen_arrays(path: Path, mark: str, choice: str, spec: str) -> Domain:
    with open_array_file(path) as file:
        if mark == ":":
            return prefixed_domain(file, choice, spec)
        names = dict(_key_and_name(part, spec) for part in choice.split(","))
        if "x" not in names:
            raise InvalidInputError(f"{shown(spec)}: expected x=NAME after '#', got {shown(choice)}")
        return array_domain(file, ArrayNames(names["x"], names.get("y"), names.get("classes", "classes")), spec)


def _key_and_name(part: str, spec: str) -> tuple[str, str]:
    key, mark, name = (piece.strip() for piece in part.partition("="))
    if key not in _ARRAY_KEYS or not mark or not name:
        raise InvalidInputError(f"{shown(spec)}: expected x=NAME,y=NAME after '#', got {shown(part)}")
    return key, name


def _load_named(spec: str, data_dir: str | Path | None, download: bool) -> Domain:
    name, _, rest = spec.partition("/")
    domain, _, split = rest.partition(":")
    if not rest:
        name, _, split = name.partition(":")
    entry = find_entry(name)
    if entry is None:
        looks_like_a_path = spec.startswith((".", "~", "/")) or Path(spec).is_absolute()
        if looks_like_a_path or not difflib.get_close_matches(name, CATALOG):
            raise InvalidInputError(
                f"no file or folder {shown(spec)}, and no data set of that name. A spec is {SPEC_FORMS}."
            )
        raise UnknownSpecError(spec, name)
    return load_selection(entry, entry.select(domain, split), data_dir=data_dir, download=download)


def _as_path(text: str) -> Path:
    """The path that a spec may be; that nothing is there is no error yet.

    Raises:
        InvalidInputError: nothing can be there: too long, a home of nobody, a folder that may not be looked into.
    """
    if not text:
        raise InvalidInputError(f"expected data, got an empty spec. A spec is {SPEC_FORMS}.")
    try:
        text.encode()  # what is not UTF-8 could be opened, and then not be written in any result
        path = Path(text).expanduser()
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        pass
    except (OSError, RuntimeError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise InvalidInputError(f"can't look for data at {shown(text)}: {reason}. A spec is {SPEC_FORMS}.") from error
    return path


def _existing(path: str) -> Path:
    found = _as_path(path)
    if not found.is_file():
        raise InvalidInputError(f"there is no file {shown(path)}. A spec is {SPEC_FORMS}.")
    return found


_FILE_READERS: dict[str, Callable[[Path, str], Domain]] = {
    ".npz": _load_array_file,
    ".npy": single_array_domain,
    **dict.fromkeys(_LIST_SUFFIXES, list_domain),
}


def _checked_source(source: Domain) -> LabelledDomain:
    if not isinstance(source, LabelledDomain):
        raise InvalidInputError(
            f"labels missing in the source {source.name!r}. Expected one sub-folder per class (two or more), "
            "a list with lines 'path label', or arrays x and y."
        )
    occurring = np.unique(source.labels)
    if len(occurring) < 2:
        raise InvalidInputError(
            f"the source {source.name!r} has one class only ({source.classes[occurring[0]]!r}); expected two or more"
        )
    return source


def _check_target_classes(source: LabelledDomain, target: Domain) -> None:
    if not isinstance(target, LabelledDomain):
        return
    try:
        target.labels_among(source.classes)
    except InvalidInputError as error:
        raise InvalidInputError(f"{error} Without labels it is the spec 'unlabelled:{target.name}'.") from error


def _check_equal_shapes(source: LabelledDomain, target: Domain) -> None:
    if source.inputs.shape != target.inputs.shape:
        raise InvalidInputError(
            f"source and target can't be used together: {source.name!r} has {source.inputs.kind} of shape "
            f"{source.inputs.shape}, {target.name!r} has {target.inputs.kind} of shape {target.inputs.shape}"
        )


def _own_size(inputs: Inputs, default_image_size: int) -> int:
    return max(inputs.shape[1:]) if inputs.in_memory else default_image_size


def _in_format(domain: Domain, image_format: ImageFormat) -> Domain:
    return dataclasses.replace(domain, inputs=domain.inputs.in_format(image_format))


def load_features(spec: str) -> NDArray[np.float64]:
    """Features (N, F) of a spec, without labels.

    Raises:
        InvalidInputError: the spec names something else than features.
    """
    inputs = load_domain(spec).inputs
    if inputs.kind != "features":
        raise InvalidInputError(
            f"expected features (rows, features), got {inputs.kind} of shape {inputs.shape} in {spec!r}"
        )
    return np.asarray(inputs.fetch(np.arange(len(inputs), dtype=np.int64)).double().numpy())
