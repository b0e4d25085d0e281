"""The run card as groups of short lines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple


class CardGroup(NamedTuple):
    """The values below one top-level key; the heading of the loose values at the top is empty."""

    heading: str
    lines: tuple[tuple[str, str], ...]


def card_groups(card: Mapping[str, Any]) -> tuple[CardGroup, ...]:
    """Nested values as dotted keys, one group per top-level mapping, loose values first."""
    loose = tuple((str(key), written_value(value)) for key, value in card.items() if not isinstance(value, Mapping))
    groups = [CardGroup("", loose)] if loose else []
    for key, value in card.items():
        if isinstance(value, Mapping) and value:
            groups.append(CardGroup(str(key), tuple(_flattened(value))))
    return tuple(groups)


def _flattened(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    for key, value in values.items():
        if isinstance(value, Mapping) and value:
            yield from _flattened(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", written_value(value)


def written_value(value: object) -> str:
    """A plain value as a reader would write it."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, Mapping):
        return ", ".join(f"{key}: {written_value(inner)}" for key, inner in value.items()) or "none"
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        parts = [written_value(item) for item in value]
        # Sentences stand on lines of their own.
        separator = "\n" if any(len(part) > 20 for part in parts) else ", "
        return separator.join(parts) or "none"
    return str(value)
