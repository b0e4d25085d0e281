"""Configuration of a run: the data, and what `Recipe` takes, as plain values of a YAML file or a command line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, NamedTuple

from shiftcal.calibrators import calibrator_class
from shiftcal.core.errors import DataUnavailableError, InvalidInputError, UnknownNameError, shown
from shiftcal.core.options import option_names
from shiftcal.core.plain_yaml import MOST_CHARACTERS, read_yaml
from shiftcal.data.image_formats import check_image_size
from shiftcal.data.table_encoder import TableColumns
from shiftcal.methods import method_class
from shiftcal.training.compositions import resolved_names
from shiftcal.training.options import TrainingOptions
from shiftcal.training.recipe import Recipe

_TABLE_KEYS = ("label", "id", "ignore", "columns")
# Types and their name for each key of a configuration file.
_VALUE_TYPES: dict[str, tuple[tuple[type, ...], str]] = {
    **dict.fromkeys(("source", "method", "backbone"), ((str,), "text")),
    **dict.fromkeys(("target", "test", "source_test", "calibrator"), ((str, type(None)), "text or null")),
    "image_size": ((int, type(None)), "a whole number or null"),
    **dict.fromkeys(("label", "id"), ((str, type(None)), "the name of a column or null")),
    **dict.fromkeys(("ignore", "columns"), ((list, type(None)), "a list of names of columns or null")),
    **dict.fromkeys(("fallback", "freeze_backbone"), ((bool,), "true or false")),
    **dict.fromkeys(("method_options", "calibrator_options", "training"), ((dict,), "a mapping")),
}


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """What to train on which data."""

    source: str
    """Data spec of the labelled source."""
    target: str | None = None
    """Data spec of the target, of which training sees the inputs only; None: no shift is known."""
    test: str | None = None
    """Data spec to predict and evaluate on after training; None: the target."""
    source_test: str | None = None
    """The same for the source; None: the part of it that training holds out."""
    method: str = "calibrated"
    """Of `shiftcal list methods`, or a composition, which is resolved into a method and a calibrator."""
    calibrator: str | None = None
    backbone: str = "auto"
    freeze_backbone: bool = False
    """Whether only a head is trained, on features that the backbone gives once."""
    image_size: int | None = None
    """Side that all images are brought to; None: by the data and the backbone."""
    label: str | None = None
    """Of tables: the column of the labels."""
    id: str | None = None
    """Of tables: a column that names the rows, and is no input."""
    ignore: Sequence[str] | None = None
    """Of tables: columns that are no inputs."""
    columns: Sequence[str] | None = None
    """Of tables: the inputs; None: all other columns."""
    fallback: bool = True
    """Whether a method that adapts is given up where the source alone seems to do better."""
    method_options: Mapping[str, Any] = field(default_factory=dict)
    calibrator_options: Mapping[str, Any] = field(default_factory=dict)
    training: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.image_size is not None:
            check_image_size(self.image_size)
        names = resolved_names(self.method, self.calibrator, self.calibrator_options)
        for name, value in zip(("method", "calibrator", "calibrator_options"), names, strict=True):
            object.__setattr__(self, name, value)

    def recipe(self) -> Recipe:
        """The recipe, with every name and value checked."""
        return Recipe.from_names(
            self.method,
            self.calibrator,
            self.backbone,
            self.method_options,
            self.calibrator_options,
            self.training,
            self.freeze_backbone,
        )

    def data(self) -> dict[str, Any]:
        """The part of the configuration that is not in the recipe."""
        names = ("source", "target", "test", "source_test", "image_size", *_TABLE_KEYS, "fallback")
        return {name: getattr(self, name) for name in names}

    def table(self) -> TableColumns:
        """What the columns of tables are."""
        return TableColumns(label=self.label, id=self.id, ignore=self.ignore or (), columns=self.columns)

    def with_settings(self, settings: Sequence[str]) -> RunConfig:
        """With `key=value` settings of the command line, each an option of the method, the calibrator or training.

        The owner is named before the key, as in `calibrator.key=value`, where several have an option of that name.

        Raises:
            UnknownNameError: none of them has an option of that name.
            InvalidInputError: a setting without a value, or one that several have.
        """
        owners = self._owners()
        changed: dict[str, Any] = {owner.field: dict(getattr(self, owner.field)) for owner in owners.values()}
        for key, text in map(_key_and_value, settings):
            prefix, _, name = key.rpartition(".")
            changed[_owner_of(name, prefix, owners).field][name] = _parsed(text)
        return replace(self, **changed)

    def with_keys(self, settings: Sequence[str]) -> RunConfig:
        """With `key=value` for keys of a run itself.

        Raises:
            InvalidInputError: a setting without a value, or with one of another type.
        """
        values = {key: _parsed(text) for key, text in map(_key_and_value, settings)}
        for key, value in values.items():
            _check_type(key, value, "a comparison")
        return replace(self, **values)

    def _owners(self) -> dict[str, _Owner]:
        """Who has options, by the word that may stand before a key."""
        owners = {
            "method": _Owner(f"method {self.method!r}", "method_options", option_names(method_class(self.method)))
        }
        if self.calibrator is not None:
            names = option_names(calibrator_class(self.calibrator))
            owners["calibrator"] = _Owner(f"calibrator {self.calibrator!r}", "calibrator_options", names)
        return owners | {"training": _Owner("training", "training", option_names(TrainingOptions))}


def read_config(path: Path) -> RunConfig:
    """Read a YAML file; data paths in it are relative to the working directory.

    Raises:
        DataUnavailableError: there is no such file.
        InvalidInputError: it is not a mapping of the known keys.
    """
    if not path.is_file():
        raise DataUnavailableError(f"no configuration file {str(path)!r}")
    try:
        with path.open(encoding="utf-8") as stream:
            content = read_yaml(stream.read(MOST_CHARACTERS + 1))
    except ValueError as error:  # also: not UTF-8
        raise InvalidInputError(f"{str(path)!r} is not a YAML file that can be used: {error}") from error
    return config_from(content, str(path))


def config_from(content: Any, where: str) -> RunConfig:
    """A configuration from plain values, each key checked."""
    known = {entry.name for entry in fields(RunConfig)}
    if not isinstance(content, dict) or "source" not in content:
        raise InvalidInputError(f"{where}: expected a mapping with at least the key 'source', got {shown(content)}")
    for key, value in content.items():
        if key not in known:
            raise UnknownNameError(f"key of a run configuration ({where})", key, known)
        _check_type(key, value, where)
    return RunConfig(**content)


def _check_type(key: str, value: Any, where: str) -> None:
    accepted, words = _VALUE_TYPES[key]
    # Not isinstance: true and false are no numbers here.
    if type(value) not in accepted:
        raise InvalidInputError(f"{where}: {key!r} must be {words}. Got {shown(value)} instead.")


class _Owner(NamedTuple):
    """The method, the calibrator or training: in words, as a field of `RunConfig`, and its options."""

    words: str
    field: str
    names: tuple[str, ...]


def _owner_of(name: str, prefix: str, owners: Mapping[str, _Owner]) -> _Owner:
    if prefix and prefix not in owners:
        hint = ", and choose a calibrator first" if prefix == "calibrator" else ""
        raise InvalidInputError(f"expected {' or '.join(owners)} before .{name[:50]}{hint}; got {shown(prefix)}")
    asked = {prefix: owners[prefix]} if prefix else owners
    having = [word for word, owner in asked.items() if name in owner.names]
    if not having:
        known = {each for owner in asked.values() for each in owner.names}
        raise UnknownNameError(f"option of {' or of '.join(owner.words for owner in asked.values())}", name, known)
    if len(having) > 1:
        found = " and ".join(owners[word].words for word in having)
        written = " or ".join(f"{word}.{name}=..." for word in having)
        raise InvalidInputError(f"{found} each have an option {name!r}; write {written}")
    return owners[having[0]]


def _key_and_value(setting: str) -> tuple[str, str]:
    key, separator, text = setting.partition("=")
    if not separator:
        raise InvalidInputError(f"expected --set key=value, got {shown(setting)}")
    return key, text


def _parsed(text: str) -> Any:
    try:
        return read_yaml(text)
    except InvalidInputError:
        return text
