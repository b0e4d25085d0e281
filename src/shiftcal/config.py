"""Configuration of a run: the data, and what `Recipe` takes, as plain values of a YAML file or a command line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import yaml

from shiftcal.errors import DataUnavailableError, InvalidInputError, UnknownNameError
from shiftcal.methods import method_class
from shiftcal.options import option_names
from shiftcal.recipe import Recipe
from shiftcal.training.options import TrainingOptions

# Types and their name for each key of a configuration file.
_VALUE_TYPES: dict[str, tuple[tuple[type, ...], str]] = {
    **dict.fromkeys(("source", "method", "backbone"), ((str,), "text")),
    **dict.fromkeys(("target", "test", "calibrator"), ((str, type(None)), "text or null")),
    "image_size": ((int, type(None)), "a whole number or null"),
    **dict.fromkeys(("method_options", "training"), ((dict,), "a mapping")),
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
    method: str = "drl"
    calibrator: str | None = None
    backbone: str = "auto"
    image_size: int | None = None
    """Side that all images are brought to; None: by the data and the backbone."""
    method_options: Mapping[str, Any] = field(default_factory=dict)
    training: Mapping[str, Any] = field(default_factory=dict)

    def recipe(self) -> Recipe:
        """The recipe, with every name and value checked."""
        return Recipe.from_names(self.method, self.calibrator, self.backbone, self.method_options, self.training)

    def data(self) -> dict[str, Any]:
        """The part of the configuration that is not in the recipe."""
        return {"source": self.source, "target": self.target, "test": self.test, "image_size": self.image_size}

    def with_settings(self, settings: Sequence[str]) -> RunConfig:
        """With `key=value` settings of the command line, each an option of the method or of training.

        Raises:
            UnknownNameError: neither has an option of that name.
        """
        method_names, training_names = option_names(method_class(self.method)), option_names(TrainingOptions)
        method_options, training = dict(self.method_options), dict(self.training)
        for setting in settings:
            key, separator, text = setting.partition("=")
            if not separator:
                raise InvalidInputError(f"expected --set key=value, got {setting!r}")
            if key not in (*method_names, *training_names):
                raise UnknownNameError(
                    f"option of method {self.method!r} or of training", key, (*method_names, *training_names)
                )
            (method_options if key in method_names else training)[key] = _parsed(text)
        return replace(self, method_options=method_options, training=training)


def read_config(path: Path) -> RunConfig:
    """Read a YAML file; data paths in it are relative to the working directory.

    Raises:
        DataUnavailableError: there is no such file.
        InvalidInputError: it is not a mapping of the known keys.
    """
    if not path.is_file():
        raise DataUnavailableError(f"no configuration file {str(path)!r}")
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, ValueError) as error:  # ValueError: not UTF-8, or a date that does not exist
        raise InvalidInputError(f"{str(path)!r} is not a YAML file: {error}") from error
    return config_from(content, str(path))


def config_from(content: Any, where: str) -> RunConfig:
    """A configuration from plain values, each key checked."""
    known = {entry.name for entry in fields(RunConfig)}
    if not isinstance(content, dict) or "source" not in content:
        raise InvalidInputError(f"{where}: expected a mapping with at least the key 'source', got {content!r}")
    for key, value in content.items():
        if key not in known:
            raise UnknownNameError(f"key of a run configuration ({where})", key, known)
        accepted, words = _VALUE_TYPES[key]
        # Not isinstance: true and false are no numbers here.
        if type(value) not in accepted:
            raise InvalidInputError(f"{where}: {key!r} must be {words}. Got {value!r} instead.")
    return RunConfig(**content)


def _parsed(text: str) -> Any:
    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, ValueError):
        return text
