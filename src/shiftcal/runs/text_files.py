"""The small files of a run folder, JSON and YAML: written whole, read with one error for all that can be wrong."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from shiftcal.core import plain_yaml
from shiftcal.core.errors import DataUnavailableError, InvalidInputError
from shiftcal.core.files import written_whole

# What parsers, and our own looks at what they give, raise for content that nobody of us wrote.
_DAMAGED = (
    ValueError,  # JSON, UTF-8
    KeyError,
    TypeError,
    AttributeError,
    RecursionError,
    OSError,
    csv.Error,
    yaml.YAMLError,
)


def write_text(path: Path, text: str) -> None:
    """Write a file whole."""
    with written_whole(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write JSON that people can read."""
    write_text(path, json.dumps(content, indent=2, ensure_ascii=False) + "\n")


def write_yaml(path: Path, content: Mapping[str, Any]) -> None:
    """Write YAML with the keys in their order."""
    write_text(path, yaml.safe_dump(dict(content), sort_keys=False, allow_unicode=True))


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Whatever goes wrong in reading this file of a run and in understanding it, as an error that names it.

    Raises:
        DataUnavailableError: there is no such file.
        InvalidInputError: it is damaged.
    """
    if not path.exists():
        raise DataUnavailableError(f"{str(path.parent)!r} is not the folder of a run: it has no {path.name}")
    try:
        yield
    except _DAMAGED as error:
        raise InvalidInputError(f"{str(path)!r} is damaged: {_in_short(error)}") from error


def read_json(path: Path) -> dict[str, Any]:
    """What `write_json` wrote."""
    with reading(path):
        return _mapping(json.loads(path.read_text(encoding="utf-8")))


def read_yaml(path: Path) -> dict[str, Any]:
    """What `write_yaml` wrote."""
    with reading(path):
        return _mapping(plain_yaml.read_yaml(path.read_text(encoding="utf-8")))


def as_numbers(content: object) -> dict[str, Any]:
    """Numbers, or nothing, by name.

    Raises:
        TypeError: it is something else.
    """
    for name, value in _mapping(content).items():
        if not isinstance(value, int | float | None):
            raise TypeError(f"expected a number as {name!r}, got {value!r:.60}")
    return _mapping(content)


def _mapping(content: object) -> dict[str, Any]:
    if not isinstance(content, dict):
        raise TypeError(f"expected a mapping, got {content!r:.60}")
    return content


def _in_short(error: BaseException) -> str:
    return f"it lacks {error}" if isinstance(error, KeyError) else str(error)
