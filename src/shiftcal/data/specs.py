"""From a spec, the text by which a user names data, to a domain.

Tried in this order:

| spec | what it names |
|---|---|
| `FOLDER` | a folder with one sub-folder per class: no image directly in it, two sub-folders or more with images |
| `FOLDER` | any other folder with images in it or below: no labels |
| `LIST.txt`, `LIST.lst` | lines `path label` or `path`, paths beginning at the list's folder |
| `SHARD.tar`, `train-*.tar`, `train-{000..120}.tar` | pictures `KEY.jpg`, with labels `KEY.cls` |
| `SHARD.parquet`, `train-*.parquet`, ... | pictures in a column of bytes, with labels in another |
| `TABLE.csv`, `.tsv`, `.txt` | a table with names of columns, also with `.gz`, `.bz2`, `.xz`, `.zip`, `.zst` behind |
| `TABLE.parquet`, `.feather`, `.arrow` | the same; in all of them `TableColumns` says which column has the labels |
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
from typing import Any, Literal, NamedTuple

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
from shiftcal.data.encoders import Encoder
from shiftcal.data.image_files import (
    DEFAULT_IMAGE_SIZE,
    Domain,
    folder_domain,
    is_image_list,
    list_domain,
    unlabelled_folder_domain,
)
from shiftcal.data.image_formats import ImageFormat, check_image_size
from shiftcal.data.inputs import Inputs
from shiftcal.data.parquet_shards import parquet_domain, picture_column
from shiftcal.data.shards import names_several, shard_paths
from shiftcal.data.table_encoder import TableColumns, TableEncoder, TableInputs, table_domain
from shiftcal.data.table_files import is_table_file, read_table_file
from shiftcal.data.tar_shards import tar_domain

SPEC_FORMS = (
    "a folder with one sub-folder per class; a folder of images; an image list LIST.txt; shards FILE.tar, "
    "train-*.tar or train-{000..120}.tar of pictures KEY.jpg with KEY.cls, the same of .parquet; a table FILE.csv "
    "(.tsv, .txt, .csv.gz, .parquet, .feather, .arrow) with --label COLUMN; arrays FILE.npz, FILE.npz:PREFIX or "
    "FILE.npz#x=NAME,y=NAME; inputs FILE.npy; a data set NAME[/DOMAIN][:SPLIT] (see: shiftcal list datasets); "
    "unlabelled:SPEC"
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
    table: TableColumns | None = None,
    encoder: Encoder | Literal["own"] | None = "own",
    data_dir: str | Path | None = None,
    download: bool = False,
) -> Domain:
    """The data that a spec names, with images brought to `image_format` if one is given.

    Without one, images in memory stay as they are and files get the default size. Of a table, `table` says what the
    columns are; `encoder` is that of the source that the data belongs to, None if that is no table, "own" if the data
    is a source itself.

    Raises:
        InvalidInputError: the spec names nothing, or what it names can't be used.
        DataUnavailableError: a data set of the catalog that is not there.
        MissingDependencyError: a package that reads the data is not installed.
    """
    if not isinstance(spec, (str, Path)):
        raise InvalidInputError(f"expected a spec, got {shown(spec)}. A spec is {SPEC_FORMS}.")
    given = None if encoder == "own" else encoder
    domain = _load(str(spec).strip(), _Where(data_dir, download, table or TableColumns(), given))
    if encoder != "own" and domain.inputs.encoder is not encoder:
        expected, found = ("features or images", "a table") if encoder is None else ("a table", domain.inputs.kind)
        raise InvalidInputError(f"{shown(spec)}: expected {expected}, as the source has, got {found}")
    return domain if image_format is None else _in_format(domain, image_format)


class _Where(NamedTuple):
    """What the reading of a spec depends on beside it."""

    data_dir: str | Path | None
    download: bool
    table: TableColumns
    encoder: Encoder | None


def load_pair(
    source_spec: str | Path,
    target_spec: str | Path,
    *,
    image_size: int | None = None,
    default_image_size: int = DEFAULT_IMAGE_SIZE,
    table: TableColumns | None = None,
    data_dir: str | Path | None = None,
    download: bool = False,
) -> tuple[LabelledDomain, Domain]:
    """A labelled source and a target, with or without labels, whose inputs have one shape.

    Images get `image_size`, or else the larger of the two sizes, that of files being `default_image_size`; and RGB
    unless both are grey. What already has this format is not copied. Tables become features by what the source's are
    like; `table` says what its columns are.

    Raises:
        InvalidInputError: also if the source has no labels or a single class, if the target has classes that the
            source lacks, or if the inputs of both can't have one shape.
        DataUnavailableError: a data set of the catalog that is not there.
        MissingDependencyError: a package that reads the data is not installed.
    """
    if image_size is not None:
        check_image_size(image_size)
    source = _checked_source(load_domain(source_spec, table=table, data_dir=data_dir, download=download))
    target = load_domain(target_spec, encoder=source.inputs.encoder, data_dir=data_dir, download=download)
    with_features = "features" in (source.inputs.kind, target.inputs.kind)
    if with_features:
        _check_equal_shapes(source, target)
    _check_target_classes(source, target)
    if with_features:
        return source, target
    size = image_size or max(_own_size(domain.inputs, default_image_size) for domain in (source, target))
    shared = ImageFormat(size, max(source.inputs.shape[0], target.inputs.shape[0]))
    return dataclasses.replace(source, inputs=source.inputs.in_format(shared)), _in_format(target, shared)


def _load(spec: str, where: _Where) -> Domain:
    if spec.startswith(_UNLABELLED):
        return _load_unlabelled(spec.partition(":")[2], where)
    path = _as_path(spec)
    if path.is_dir():
        return folder_domain(path, spec)
    chosen = None if path.exists() else _CHOSEN_ARRAYS.fullmatch(spec)
    if chosen is not None:
        return _load_chosen_arrays(_existing(chosen["path"]), chosen["mark"], chosen["choice"], spec)
    if path.suffix.lower() == ".tar":
        return tar_domain(shard_paths(spec), spec)
    if path.suffix.lower() == ".parquet" and _names_pictures(spec, path):
        return parquet_domain(shard_paths(spec), spec, where.table.label)
    if is_table_file(path) and not (path.is_file() and is_image_list(path)):
        return _load_table(_existing(spec), spec, where)
    read = _FILE_READERS.get(path.suffix.lower())
    if read is not None:
        return read(_existing(spec), spec)
    if path.exists():
        raise InvalidInputError(f"can't tell what kind of data the file {shown(spec)} is. A spec is {SPEC_FORMS}.")
    return _load_named(spec, where)


def _load_unlabelled(spec: str, where: _Where) -> Domain:
    if spec.startswith(_UNLABELLED):
        raise InvalidInputError(f"expected unlabelled: once in a spec, got it again before {shown(spec)}")
    path = _as_path(spec)
    if path.is_dir():
        return unlabelled_folder_domain(path, spec)
    domain = _load(spec, where)
    return domain.without_labels() if isinstance(domain, LabelledDomain) else domain


def _names_pictures(spec: str, path: Path) -> bool:
    """Whether parquet files hold pictures and not a table, which is one file."""
    return picture_column(path) is not None if path.is_file() else names_several(spec)


def _load_table(path: Path, spec: str, where: _Where) -> Domain:
    encoder = where.encoder
    if encoder is not None and not isinstance(encoder, TableEncoder):
        raise InvalidInputError(f"expected a sparse matrix, as the source is one, got the table {spec!r}")
    id_column = where.table.id or (None if encoder is None else encoder.id)
    return table_domain(read_table_file(path, id_column=id_column), spec, where.table, encoder)


def table_as_written(spec: str) -> Any:
    """The table that a spec names as a pandas frame, with the texts of a text file as they are."""
    for prefix in _UNLABELLED:
        spec = spec.removeprefix(prefix)
    return read_table_file(Path(spec.strip()).expanduser(), as_written=True)


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


def _load_named(spec: str, where: _Where) -> Domain:
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
    return load_selection(entry, entry.select(domain, split), data_dir=where.data_dir, download=where.download)


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
        if isinstance(source.inputs, TableInputs):
            raise InvalidInputError(
                f"labels missing in the source {source.name!r}: say which column has them (--label COLUMN), of "
                f"{', '.join(source.inputs.column_names)}"
            )
        raise InvalidInputError(
            f"labels missing in the source {source.name!r}. Expected one sub-folder per class (two or more), "
            "a list with lines 'path label', or arrays x and y."
        )
    occurring = np.unique(source.labels)
    if len(occurring) < 2:
        raise InvalidInputError(
            f"the source {source.name!r} has one class only ({shown(source.classes[occurring[0]])}); expected two or "
            "more"
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
