"""Options of methods, calibrators and training: one dataclass field is rule, message, default and documentation.

A class with options is a keyword-only dataclass whose fields are made with `option`. Its constructor is the only
list of its options: configuration keys, command-line overrides, validation and the documentation are read from it.
It may have `presets`, by name: options that go together. The option `preset` stands for these, and others beside it
count more.
"""

from __future__ import annotations

import dataclasses
import math
import numbers
import types
import typing
from collections.abc import Mapping
from typing import Any, TypeVar

from shiftcal.core.errors import InvalidInputError, UnknownNameError, shown

ClassT = TypeVar("ClassT")
_PRESET = "preset"


def option(
    default: Any,
    doc: str,
    *,
    at_least: float | None = None,
    above: float | None = None,
    at_most: float | None = None,
    below: float | None = None,
) -> Any:
    """Declare a dataclass field with its documentation and, for numbers, its range."""
    limits = {"at_least": at_least, "above": above, "at_most": at_most, "below": below}
    return dataclasses.field(default=default, metadata={"doc": doc, **limits})


def build(cls: type[ClassT], options: Mapping[str, Any] | None, *, owner: str) -> ClassT:
    """Construct `cls` from plain values, with each name, type and range checked.

    Raises:
        UnknownNameError: an option that `cls` does not have, with the closest one that it has.
        InvalidInputError: a value of the wrong type or out of range.
    """
    fields = _option_fields(cls)
    hints = typing.get_type_hints(cls)
    if options is not None and not isinstance(options, Mapping):
        raise InvalidInputError(
            f"options of {owner} must be a mapping of names to values. Got {shown(options)} instead."
        )
    values = {}
    for name, value in _expanded(options or {}, _presets(cls), owner).items():
        if name not in fields:
            raise UnknownNameError(f"option of {owner}", name, fields)
        values[name] = _checked(value, hints[name], fields[name], owner)
    return cls(**values)


def option_names(cls: type) -> tuple[str, ...]:
    """Names of the options of `cls`, in the order of declaration."""
    return (*_option_fields(cls), *([_PRESET] if _presets(cls) else []))


def as_dict(instance: Any) -> dict[str, Any]:
    """All option values of an instance, defaults included."""
    return {name: getattr(instance, name) for name in _option_fields(type(instance))}


def describe(cls: type) -> list[tuple[str, str, str, str]]:
    """Rows of (name, type, default, documentation) for lists and documents."""
    hints = typing.get_type_hints(cls)
    rows = [
        (name, _type_words(hints[name]), repr(field.default), field.metadata["doc"])
        for name, field in _option_fields(cls).items()
    ]
    presets = _presets(cls)
    if presets:
        doc = "; ".join(f"{name}: {_listed(values)}" for name, values in presets.items())
        rows.append((_PRESET, " or ".join(presets), "None", f"options that go together. {doc}"))
    return rows


def _listed(options: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in options.items())


def _presets(cls: Any) -> Mapping[str, Mapping[str, Any]]:
    return getattr(cls, "presets", {})


def _expanded(options: Mapping[str, Any], presets: Mapping[str, Mapping[str, Any]], owner: str) -> Mapping[str, Any]:
    if not presets or _PRESET not in options:
        return options
    chosen = options[_PRESET]
    if not isinstance(chosen, str) or chosen not in presets:
        raise UnknownNameError(f"preset of {owner}", str(chosen), presets)
    return {**presets[chosen], **{name: value for name, value in options.items() if name != _PRESET}}


def _option_fields(cls: Any) -> dict[str, dataclasses.Field[Any]]:
    return {field.name: field for field in dataclasses.fields(cls) if field.init}


def _checked(value: Any, hint: Any, field: dataclasses.Field[Any], owner: str) -> Any:
    coerced = _coerce(value, hint)
    if coerced is _REJECTED or not _in_range(coerced, field.metadata):
        expected = _type_words(hint, _range_words(field.metadata))
        raise InvalidInputError(f"option {field.name!r} of {owner} must be {expected}. Got {shown(value)} instead.")
    return coerced


_REJECTED = object()


def _coerce(value: Any, hint: Any) -> Any:
    """The value as the hinted type, or _REJECTED. Numbers given as text (YAML reads 1e-3 as text) are taken."""
    origin = typing.get_origin(hint)
    if origin in (typing.Union, types.UnionType):
        candidates = (_coerce(value, member) for member in typing.get_args(hint))
        return next((candidate for candidate in candidates if candidate is not _REJECTED), _REJECTED)
    if origin is typing.Literal:
        return str.__str__(value) if isinstance(value, str) and value in typing.get_args(hint) else _REJECTED
    if hint is type(None):
        return None if value is None else _REJECTED
    if hint is bool:
        return value if isinstance(value, bool) else _REJECTED
    if hint is str:
        return str.__str__(value) if isinstance(value, str) else _REJECTED  # not NumPy's or an Enum's kind of text
    if hint in (int, float):
        return _number(value, whole=hint is int)
    raise TypeError(f"options of type {hint!r} are not supported")


def _number(value: Any, *, whole: bool) -> Any:
    """The value as a finite int or float, or _REJECTED; Python's and NumPy's numbers and text are taken."""
    if isinstance(value, bool) or not isinstance(value, (str, numbers.Real)):
        return _REJECTED
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return _REJECTED
    if not math.isfinite(number) or (whole and not number.is_integer()):
        return _REJECTED
    if not whole:
        return number
    try:
        return int(value)  # type: ignore[arg-type]  # exact beyond 2**53, unlike the float
    except ValueError:  # text such as 1e3
        return int(number)


def _in_range(value: Any, limits: Mapping[str, Any]) -> bool:
    if not isinstance(value, (int, float)):
        return True
    return (
        (limits["at_least"] is None or value >= limits["at_least"])
        and (limits["above"] is None or value > limits["above"])
        and (limits["at_most"] is None or value <= limits["at_most"])
        and (limits["below"] is None or value < limits["below"])
    )


def _range_words(limits: Mapping[str, Any]) -> str:
    words = {"at_least": "at least", "above": "more than", "at_most": "at most", "below": "less than"}
    parts = [f"{words[key]} {_written(limits[key])}" for key in words if limits[key] is not None]
    return " of " + " and ".join(parts) if parts else ""


def _written(limit: float) -> str:
    return f"{limit:,}" if isinstance(limit, int) else f"{limit:g}"


def _type_words(hint: Any, range_words: str = "") -> str:
    origin = typing.get_origin(hint)
    if origin in (typing.Union, types.UnionType):
        return " or ".join(_type_words(member, range_words) for member in typing.get_args(hint))
    if origin is typing.Literal:
        return " or ".join(repr(choice) for choice in typing.get_args(hint))
    if hint in (int, float):
        return ("a whole number" if hint is int else "a number") + range_words
    names = {type(None): "None", bool: "true or false", str: "text"}
    return names.get(hint, str(hint))
