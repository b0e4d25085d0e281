import time

import pytest

from shiftcal.core.errors import InvalidInputError
from shiftcal.core.plain_yaml import MOST_CHARACTERS, MOST_LEVELS, MOST_VALUES, read_yaml


def test_plain_values_are_read() -> None:
    text = "a: 1\nb: [x, 2.5, true, null]\nc: {d: 1e-3}\nday: 2024-02-30\n"
    assert read_yaml(text) == {"a": 1, "b": ["x", 2.5, True, None], "c": {"d": "1e-3"}, "day": "2024-02-30"}
    assert read_yaml("") is None


def test_aliases_and_merged_mappings_are_understood() -> None:
    text = "base: &base {epochs: 1, device: cpu}\nsame: *base\nmore: {<<: *base, epochs: 2}\n"
    base = {"epochs": 1, "device": "cpu"}
    assert read_yaml(text) == {"base": base, "same": base, "more": base | {"epochs": 2}}


def test_what_is_just_within_the_limits_is_read() -> None:
    assert read_yaml("[" * MOST_LEVELS + "]" * MOST_LEVELS)
    assert len(read_yaml("[" + "1, " * (MOST_VALUES - 1) + "]")) == MOST_VALUES - 1


LIMITS = f"at most {MOST_LEVELS} levels and {MOST_VALUES:,} values"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[" * (MOST_LEVELS + 1), LIMITS),
        ("- " * 50_000, LIMITS),
        ("{a: " * 5_000, LIMITS),
        ("[" + "1, " * MOST_VALUES + "]", LIMITS),
        ("- &a0 [1]\n" + "".join(f"- &a{n + 1} [*a{n}, *a{n}]\n" for n in range(30)), LIMITS),
        ("- &a0 {b: 1}\n" + "".join(f"- &a{n + 1} {{<<: [*a{n}, *a{n}]}}\n" for n in range(30)), LIMITS),
        ("&a [*a]", LIMITS),
        ("x" * (MOST_CHARACTERS + 1), f"at most {MOST_CHARACTERS:,} characters"),
        ("{a: 1, b: 2, a: 3}", "the key 'a' twice"),
        ("!!timestamp 2020", "timestamp"),
        ("!!binary aGVsbG8=", "binary"),
        ("!!set {a, b}", "set"),
        ("!!python/object/apply:os.system [ls]", "python"),
        ("!!bool maybe", "maybe"),
        ("!!int ''", "index"),
        ("!!float x", "float"),
        ("9" * 5000, "digits"),
        ("? [a]\n: b", "unhashable"),
        ("a\0b", "special characters"),
        ("---\na\n---\nb", "single document"),
    ],
)
def test_anything_else_is_refused_at_once(text: str, words: str) -> None:
    started = time.process_time()
    with pytest.raises(InvalidInputError, match=words):
        read_yaml(text)
    assert time.process_time() - started < 2
