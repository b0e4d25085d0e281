"""YAML as configuration needs it: mappings, lists, text, numbers, true, false and null, within stated limits.

No timestamps (a date is text), no other tags, no key twice, no more than so many levels and values. A value that
an alias repeats counts each time, so that few lines can't stand for billions.
"""

from __future__ import annotations

from typing import Any

import yaml

from shiftcal.core.errors import InvalidInputError

MOST_CHARACTERS = 100_000
MOST_LEVELS = 20
MOST_VALUES = 10_000

_TAG = "tag:yaml.org,2002:"
_MERGE = f"{_TAG}merge"


def read_yaml(text: str) -> Any:
    """The plain values of a YAML text.

    Raises:
        InvalidInputError: it is no YAML, or not within the limits.
    """
    if len(text) > MOST_CHARACTERS:
        raise InvalidInputError(f"expected at most {MOST_CHARACTERS:,} characters, got {len(text):,}")
    try:
        return yaml.load(text, _PlainLoader)
    except (yaml.YAMLError, ValueError, LookupError) as error:  # the latter two: `!!int x`, `!!bool x`
        raise InvalidInputError(str(error)) from error


class _PlainLoader(yaml.SafeLoader):
    yaml_constructors = {  # noqa: RUF012 - as PyYAML has it
        tag: construct
        for tag, construct in yaml.SafeLoader.yaml_constructors.items()
        if tag is None or tag.removeprefix(_TAG) in ("null", "bool", "int", "float", "str", "seq", "map")
    }
    yaml_implicit_resolvers = {  # noqa: RUF012
        first: [(tag, pattern) for tag, pattern in resolvers if tag not in (f"{_TAG}timestamp", f"{_TAG}value")]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._level = self._num_values = 0
        self._values_of: dict[str, int] = {}

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        event = self.peek_event()  # type: ignore[no-untyped-call]
        before = self._num_values
        self._level += 1
        # An alias within its own anchor has no end.
        is_alias = isinstance(event, yaml.AliasEvent)
        self._num_values += self._values_of.get(event.anchor, MOST_VALUES + 1) if is_alias else 1
        if self._level > MOST_LEVELS or self._num_values > MOST_VALUES:
            raise yaml.constructor.ConstructorError(
                problem=f"expected at most {MOST_LEVELS} levels and {MOST_VALUES:,} values, aliases written out",
                problem_mark=event.start_mark,
            )
        node = super().compose_node(parent, index)
        if isinstance(node, yaml.MappingNode) and not is_alias:
            _check_keys(node)
        if event.anchor is not None and not is_alias:
            self._values_of[event.anchor] = self._num_values - before
        self._level -= 1
        return node


def _check_keys(node: yaml.MappingNode) -> None:
    seen = set()
    for key, _ in node.value:
        if isinstance(key, yaml.ScalarNode) and key.tag != _MERGE:
            if (key.tag, key.value) in seen:
                raise yaml.constructor.ConstructorError(
                    problem=f"found the key {key.value[:50]!r} twice", problem_mark=key.start_mark
                )
            seen.add((key.tag, key.value))
